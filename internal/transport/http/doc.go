// Package http carries an agent's calls to the broker's REST API over mTLS.
//
//	call ─▶ retries with jitter ─▶ circuit breaker ─▶ one of the broker's URLs ─▶ TLS 1.3, ca.crt alone
//
// All calls can be repeated, so all are: a connection that breaks, 429 and 5xx are
// tried again within the call's time, unless the broker has answered nobody for a while.
// What is left is an error that wraps
// transport.ErrUnreachable. Problem documents come back as *fault.Error.
package http
