// Package identity keeps the certificate with which this cluster's agent speaks to
// the broker: it enrols the cluster, renews the certificate and puts what it has
// where the agent reads it.
//
//	Secret ──read──▶ State ──Plan──▶ Step
//	  ▲                                │ Prepare: a new key and its request
//	  │                                │ Enrol:   send it with the token, or wait for approval
//	  └──────written before and after──┤ Renew:   send it with the certificate in use
//	                                   │ Publish: Secret ──▶ files, all at once
//	                                   └ Wait
//
// The Secret is the only memory. A key is in it before its request is sent, and an
// answer before it is used, so whatever dies in between is done again with the same
// key. Replicas need no lock: a Secret is written on the version that was read, and
// whoever comes second takes what the first one wrote.
//
// Private keys are in the Secret and in the files, and nowhere else.
package identity
