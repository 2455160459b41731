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
// first failure. It records events. Its parts compute their state from the book and observe events to
// keep that state up to date. Each is a package:
//
//	reservations  turns requests into events
//	deadlines     carries out due steps of reservations
//	clusters      freshness, offers, rows of the market
//	decider       chooses providers, explains choices
//	queueing      requests that wait for capacity, victims of preemption
//	quotes        decisions held without a reservation
//	budget        use of the broker by members
//	archive       stores what the journal does not keep
//	healing       moves away from lost providers
//	drains        recalls from drained providers
//	idle          releases reservations that no pod uses
//	recovery      restored journals and announcements
//	links         connections from requesters to providers
//	metrics       counts and durations
//	traces        spans of reservations, if they are wanted
//	excess        requesters that exceeded their grants
//	news          changed reservations of each cluster
//	views         answers, instructions and texts
//
// Other packages are no parts of a session: settings (the BrokerConfig), feed (names of what changed, for
// controllers), receipts (signatures of answers), standby (the book while another replica leads) and whatif
// (plans).
//
// Parts never see each other. Each gets the session as an interface of its package, which is a term.Term
// with what else it needs; the session embeds the parts, so their methods implement most of it. Parts
// leave work for each other on the agenda. The session carries it out in this order:
//
//  1. After every event, it recomputes the free capacity of the clusters that parts noted as outdated.
//  2. When time passes, it carries out due steps: those of clusters, of other parts, of reservations.
//  3. At the end of every call, and before a decision that could take their place, it grants the capacity
//     of clusters noted as freed to waiting requests.
//  4. Then it preempts for requests that still wait, on clusters noted as preemptable.
package broker
