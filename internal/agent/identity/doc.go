// Package identity obtains and renews the certificate of this cluster's agent, and writes it to
// the files that the agent reads.
//
// @
//
// The Secret holds all state. It contains a key before the request is sent, and an answer
// before it is used, so a process that dies in between continues with the same key. Replicas
// need no lock: writes are optimistic, and the slower replica uses what the faster one wrote.
//
// Private keys are only in the Secret and in the files.
package identity
