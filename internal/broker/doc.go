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
// first failure. A session records events. Its components compute their state from the book and
// observe events to keep that state up to date:
//
//	reservations  turns requests into events                  reserve.go lease.go change.go …
//	decider       chooses providers, explains choices         decider.go decisionrequest.go
//	clusters      freshness, offers, rows of the market       clusters.go freshness.go advertise.go
//	queue         requests that wait for capacity             queue.go
//	preemption    victims, and the requests they yield to     preemption.go holders.go
//	quotes        decisions held without a reservation        quotes.go quote.go
//	healing       moves away from lost providers              healing.go
//	drains        recalls from drained providers              drain.go
//	idles         releases reservations that no pod uses      idle.go
//	recovery      restored journals and announcements         recovery.go announcement.go adoption.go
//	deadlines     carries out due steps                       deadlines.go schedule.go
//	links         connections from requesters to providers    links.go
//	accounts      use of the broker by members, and budgets   budget.go
//	book          ledger and accounts of the same events      replay/ periods.go
//	news          informs agents about changes                news.go instructions.go
//	metering      counts and durations for metrics            meter.go collector.go
//	traces        spans of reservations, if they are wanted   traces.go
//	excesses      requesters that exceeded their grants       excess.go
package broker
