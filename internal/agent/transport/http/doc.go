// Package http carries an agent's calls to the broker's REST API over mTLS.
//
//	call ─▶ retries with jitter ─▶ circuit breaker ─▶ one of the broker's URLs ─▶ TLS 1.3, ca.crt alone
//
// All calls are idempotent, so all are retried: a broken connection, 429 and 5xx lead to
// another attempt within the call's time, unless the circuit breaker is open. The remaining
// errors wrap transport.ErrUnreachable. Problem documents become *fault.Error.
package http
