// Package identity obtains and renews the certificate of this cluster's agent, and writes it to the
// files that the agent reads.
//
//	Secret ──read──▶ State ──Decide──▶ Step
//	  ▲                                  │ Prepare: create a key and its request
//	  │                                  │ Enrol:   send the request with the token, or await approval
//	  └───────written before and after───┤ Renew:   send the request with the current certificate
//	                                     │ Publish: Secret ──▶ files, all at once
//	                                     │ Restore: files ──▶ Secret
//	                                     └ Wait, or Stuck until an administrator helps
//
// The Secret holds all state. It stores a key before the request for it is sent, and a certificate
// before it is used, so a process that restarts continues with the same key. Replicas need no lock:
// a write fails if another replica has written meanwhile, and the slower replica then uses the
// result of the faster one.
//
// Private keys are only in the Secret and in the files.
package identity
