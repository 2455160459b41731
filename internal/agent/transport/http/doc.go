// Package http sends an agent's calls to the broker's REST API over mTLS.
//
//	call ─▶ retries with jitter ─▶ one of the broker's URLs ─▶ TLS 1.3, trusting only ca.crt
//
// All calls are idempotent, so all can be retried. A broken connection and the status codes 429 and 5xx cause another
// attempt within the call's timeout, unless the broker asks for a longer pause than
// maxRetryAfter. If no attempt succeeds, the error wraps transport.ErrUnreachable. If the broker refuses the call, the
// error is a *fault.Error.
package http
