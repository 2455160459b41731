// Package wire converts between the messages of the network (api/rest/v1), the CRDs and
// amounts in base units. It takes no decisions. It returns an error for values that it cannot read.
package wire
