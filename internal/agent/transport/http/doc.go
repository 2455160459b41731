// Package http sends an agent's calls to the broker's REST API over mTLS.
//
//	call ─▶ one of the broker's URLs, then the next one ─▶ TLS 1.3, trusting only ca.crt
//
// All calls are idempotent, so all can be retried. After a broken connection, or if a replica stops, one more attempt
// follows at once. Controllers and the outbox retry later. If no attempt succeeds, the error wraps
// transport.ErrUnreachable. If the broker refuses the call, the error is a *fault.Error.
package http
