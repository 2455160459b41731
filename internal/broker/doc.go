// Package broker contains the broker's use cases. It joins decision, ledger and journal, and
// answers agents and controllers.
//
//	callers ──► plan under the lock ──► ledger (memory) ──► journal ──► answer
//	                 │                                         │ failed
//	              decision                      memory is dropped and replayed
//
// Memory runs ahead of the journal, so that queued events are committed together. The broker
// answers only when everything the answer rests on is durable. While the journal cannot be
// written there is no memory either, and every call is refused with Unavailable.
//
// A session is that memory. It records events; its components derive what they need from
// the book and observe events to keep it up to date:
//
//	reservations  what is asked for becomes events            reserve.go change.go report.go …
//	decider       chooses providers, explains choices         decider.go decisionrequest.go
//	clusters      freshness, offers, rows of the market       clusters.go freshness.go advertise.go
//	queue         requests that wait for capacity             queue.go
//	preemption    victims, and whom they make room for        preemption.go holders.go
//	quotes        decisions held without a reservation        quotes.go quote.go
//	healing       moves away from lost providers              healing.go
//	recovery      restored journals and announcements         recovery.go announcement.go adoption.go
//	deadlines     carries out what is due                     deadlines.go schedule.go
//	links         which requester reaches which provider      links.go
//	accounts      what members use, and their budgets         budget.go
//	news          tells agents what changed                   news.go instructions.go
//	excesses      who ran more than it was granted            excess.go
package broker
