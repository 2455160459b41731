// Package wire converts between what crosses the network (api/rest/v1), the API
// kinds and whole amounts. It decides nothing; it refuses what cannot be read.
package wire
