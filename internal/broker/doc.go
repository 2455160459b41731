// Package broker contains the broker's use cases. It joins the packages decision, ledger and
// journal, and answers agents and controllers.
//
//	callers ──► plan under the lock ──► ledger (memory) ──► journal ──► answer
//	                 │                                         │ failed
//	              decision                      memory is dropped and replayed
//
// The ledger's State, which is called the book, is kept in memory. It runs ahead of the journal, so
// that several queued events are committed together. The broker answers only when all events on
// which the answer depends are durable. While the journal cannot be written there is no session,
// and every call is refused with Unavailable.
//
// A session is the state in memory for one term, which lasts from opening the journal until the
// first failure. A session records events. Its parts compute their state from the book and observe
// events to keep that state up to date:
//
//	reservations  turns requests into events                  reserve.go lease.go change.go …
//	decider       chooses providers, explains choices         decider.go decisionrequest.go
//	clusters      freshness, offers, rows of the market       clusters.go freshness.go advertise.go
//	queue         requests that wait for capacity             queue.go
//	preemption    victims, and the requests they yield to     preemption.go holders.go
//	quotes        decisions held without a reservation        quotes/ quote.go
//	deadlines     carries out due steps                       deadlines.go schedule.go
//	accounts      use of the broker by members, and budgets   budget/
//	book          ledger and accounts of the same events      replay/
//	news          informs agents about changes                news.go instructions.go
//	archive       stores what the journal does not keep       archive/ stored.go
//	healing       moves away from lost providers              healing/
//	drains        recalls from drained providers              drains/
//	idles         releases reservations that no pod uses      idle/
//	recovery      restored journals and announcements         recovery/
//	links         connections from requesters to providers    links/
//	metering      counts and durations for metrics            metrics/ figures.go
//	traces        spans of reservations, if they are wanted   traces/
//	excesses      requesters that exceeded their grants       excess/
//
// Parts in packages of their own never see each other. They get the session as an interface of their
// package, which is a term.Term with what else they need; parts.go implements it. They leave work for
// other parts with the session: FreeCluster names a cluster on which waiting requests may find room,
// SetDeadline a step for a later time. The session carries it out in this order: due steps of
// clusters, of other parts, and of reservations; then it grants freed capacity to waiting requests;
// then it preempts for those that still wait. The last two steps end every call.
package broker
