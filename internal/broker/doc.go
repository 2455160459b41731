// Package broker is what the broker does: it joins the decision, the ledger and
// the journal, and answers agents and controllers alike.
//
//	callers ──► plan under the lock ──► ledger (memory) ──► journal ──► answer
//	                 │                                         │ failed
//	              decision                      memory is thrown away and replayed
//
// Memory runs ahead of the journal, so that what queues is committed together.
// Nothing is answered before everything the answer rests on is durable. While the
// journal cannot be written there is no memory either, and every call is refused
// with Unavailable.
package broker
