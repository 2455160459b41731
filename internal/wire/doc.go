// Package wire converts between the types of the REST API (api/rest/v1), those of the CRDs, and
// amounts in base units. It makes no decisions, and returns an error for values that it cannot read.
package wire
