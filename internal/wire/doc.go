// Package wire converts between the types of the REST API (api/rest/v1), the types of the CRDs, and
// amounts in base units. It only converts: it returns an error for values that it cannot read, and
// decides nothing else.
package wire
