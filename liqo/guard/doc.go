// Package guard decides what other clusters may have and do in this cluster.
//
// It grants the resources of slices according to their reservations, and allows certificates
// only for placements that have not ended. It writes the rights of each consumer's identities to
// where the admission policies read them, and limits the number of objects that a consumer may
// create. It also finds, cordons, deletes and retries the pods that consumers run here.
package guard
