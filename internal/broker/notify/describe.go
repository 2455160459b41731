package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Book follows the journal, and describes each of its records as events. It is not safe for
// concurrent use.
type Book struct {
	state *ledger.State
	// records is true if the events include the records themselves.
	records bool
}

// NewBook returns a Book that continues from state. The caller must not use state afterwards. With records, each
// entry has an event of type Record after its other events.
func NewBook(state *ledger.State, records bool) *Book { return &Book{state, records} }

// Read applies the next entry of the journal and returns its events, in a fixed order. Records
// about the journal itself have at most one event, of type Record. After an error the Book must not be used.
func (b *Book) Read(e *journal.Entry) ([]Event, error) {
	var out []Event
	if e.Kind == "record" {
		var err error
		if out, err = b.apply(e); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 && !b.records {
		return nil, nil
	}
	about, err := trail.Describe(e, trail.Book{State: b.state})
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].fillRecord(about, i)
	}
	if b.records {
		out = append(out, b.recordEvent(about, len(out)))
	}
	return out, nil
}

// recordEvent returns the event that contains a record. Every event has a time. A record of the journal itself has
// none, so its event gets the time of the record before.
func (b *Book) recordEvent(r *trail.Record, index int) Event {
	out := Event{Type: Record, Subject: cmp.Or(r.Reservation, r.Cluster), Record: r}
	out.fillRecord(r, index)
	out.Data.Cluster, out.Data.Reservation, out.Data.Requester = r.Cluster, r.Reservation, r.Requester
	if r.Time.IsZero() {
		out.Data.Time = b.state.Latest()
	}
	return out
}

func (b *Book) apply(e *journal.Entry) ([]Event, error) {
	record := &ledger.Event{}
	if err := record.UnmarshalJSON(e.Data); err != nil {
		return nil, fmt.Errorf("journal record %d: %w", e.Position, err)
	}
	names := b.affectedReservations(record)
	before := make([]glance, len(names))
	for i, name := range names {
		before[i] = glanceAt(b.state.Reservation(name))
	}
	out := b.describeCluster(record)
	if err := b.state.Apply(e.Position, record); err != nil {
		return nil, fmt.Errorf("journal record %d: %w", e.Position, err)
	}
	for i, name := range names {
		if r := b.state.Reservation(name); r != nil {
			out = append(out, describeReservation(r, before[i], glanceAt(r))...)
		}
	}
	return out, nil
}

// affectedReservations returns the names of the reservations about which a record may cause an event.
func (b *Book) affectedReservations(e *ledger.Event) []string {
	var out []string
	if name := e.Reservation(); name != "" {
		out = append(out, name)
		for _, victim := range b.state.Victims(b.state.Reservation(name)) {
			out = append(out, victim.Name)
		}
	}
	switch change := e.Change.(type) {
	case *ledger.Preempt:
		for _, victim := range change.Victims {
			out = append(out, victim.Name)
		}
	case *ledger.ForgetCluster:
		b.state.Reservations(func(r *ledger.Reservation) {
			if r.Phase() == ledger.Releasing {
				out = append(out, r.Name)
			}
		})
		slices.Sort(out)
	}
	return slices.Compact(out)
}

// glance is a copy of the parts of a reservation on which its events depend. Later changes of the
// book do not affect it.
type glance struct {
	exists bool
	phase  ledger.Phase
	end    ledger.EndReason
	// placement is the number of the standing placement, 0 for none; last is the number of the newest
	// placement.
	placement, last int32
	provider        string
	notice, recall  time.Time
	idle            ledger.IdleTime
	amounts         quantity.Amounts
	duration        time.Duration
	refused         int64
}

func glanceAt(r *ledger.Reservation) glance {
	if r == nil {
		return glance{}
	}
	g := glance{exists: true, phase: r.Phase(), end: r.EndReason, amounts: r.Amounts, duration: r.Duration}
	if p := r.Current(); p != nil {
		g.last, g.provider = p.Number, p.Provider
		if r.Stands(p) {
			g.placement = p.Number
		}
	}
	if r.Notice != nil {
		g.notice = r.Notice.Ends
	}
	if c := r.CalledBack(); c != nil {
		g.recall = c.Ends
	}
	if i := r.IdleNow(); i != nil {
		g.idle = *i
	}
	if r.Refusal != nil {
		g.refused = r.Refusal.Generation
	}
	return g
}

func (g *glance) isOver() bool { return g.phase == ledger.Released || g.phase == ledger.Failed }

// isWarned reports whether the requester was told that the reservation must leave its provider, or is to be released
// because no pod uses it.
func (g *glance) isWarned() bool {
	return !g.notice.IsZero() || !g.recall.IsZero() || !g.idle.Ends.IsZero()
}

// describeReservation returns the events of one reservation. A record may cause several events, for
// example when a request fails that holds nothing.
func describeReservation(r *ledger.Reservation, before, after glance) []Event {
	var out []Event
	add := func(t Type, d Data, format string, args ...any) {
		d.Message = fmt.Sprintf(format, args...)
		d.Reservation, d.Requester, d.Tenant, d.Phase = r.Name, r.Requester, r.Tenant, string(after.phase)
		d.Provider, d.Placement = after.provider, after.placement
		if after.phase == ledger.Queued {
			d.Provider = ""
		}
		out = append(out, Event{Type: t, Subject: r.Name, Data: d})
	}
	if !before.isOver() && before.end == "" {
		describePlacement(r, before, after, add)
		describeNotices(r, before, after, add)
		describeChange(r, before, after, add)
	}
	describeEnd(r, before, after, add)
	return out
}

type adder = func(t Type, d Data, format string, args ...any)

func describePlacement(r *ledger.Reservation, before, after glance, add adder) {
	switch {
	case after.phase == ledger.Queued && before.phase != ledger.Queued:
		add(Queued, Data{Until: r.Waiting.Until}, "%s of %s waits for capacity", r.Name, r.Requester)
	case after.placement == 0 || after.placement == before.placement:
	case before.last == 0 || before.phase == ledger.Queued:
		add(Granted, Data{Until: r.Until}, "%s of %s is granted on %s", r.Name, r.Requester, after.provider)
	default:
		d := Data{From: before.provider, Until: r.Until}
		if left := r.Placement(before.last); left != nil {
			d.Reason = left.Withdrawn
		}
		add(Moved, d, "%s of %s moves from %s to %s", r.Name, r.Requester, before.provider, after.provider)
	}
	switch {
	case after.phase == ledger.Active && before.phase != ledger.Active:
		add(Active, Data{Until: r.Until}, "%s of %s is ready for use on %s", r.Name, r.Requester, r.Serving().Provider)
	case after.phase == ledger.Reserved && before.phase == ledger.Active:
		add(NotReady, Data{}, "%s of %s cannot be used now: its node is not Ready", r.Name, r.Requester)
	}
}

func describeNotices(r *ledger.Reservation, before, after glance, add adder) {
	if r.Notice != nil && !after.notice.Equal(before.notice) {
		add(PreemptionNotice, Data{Reason: ledger.Preempted, Until: after.notice},
			"%s of %s must leave %s by %s: %s has a higher priority", r.Name, r.Requester, after.provider, after.notice.UTC().Format(time.RFC3339), r.Notice.By)
	}
	if c := r.CalledBack(); c != nil && !after.recall.Equal(before.recall) {
		reason := ""
		if c.Message != "" {
			reason = ": " + c.Message
		}
		provider := after.provider
		if p := r.Placement(c.Placement); p != nil {
			provider = p.Provider
		}
		add(RecallNotice, Data{Reason: c.Reason(), Until: c.Ends},
			"%s of %s must leave %s by %s%s", r.Name, r.Requester, provider, c.Ends.UTC().Format(time.RFC3339), reason)
	}
	if !after.idle.Since.IsZero() && after.idle != before.idle {
		then := ""
		if !after.idle.Ends.IsZero() {
			then = "; it is released at " + after.idle.Ends.UTC().Format(time.RFC3339) + " unless a pod comes"
		}
		add(Idle, Data{Reason: "Idle", Until: after.idle.Ends}, "nobody uses %s of %s since %s%s", r.Name, r.Requester, after.idle.Since.UTC().Format(time.RFC3339), then)
	}
	if before.isWarned() && !after.isWarned() && after.placement != 0 && after.placement == before.placement {
		add(NoticeWithdrawn, Data{}, "%s of %s may stay on %s", r.Name, r.Requester, after.provider)
	}
}

func describeChange(r *ledger.Reservation, before, after glance, add adder) {
	if before.exists && after.end == "" && (!after.amounts.Equal(before.amounts) || after.duration != before.duration) {
		add(Changed, Data{Until: r.Until}, "%s of %s has changed", r.Name, r.Requester)
	}
	if after.refused != 0 && after.refused != before.refused {
		add(ChangeRefused, Data{}, "the change of %s of %s is refused: %s", r.Name, r.Requester, r.Refusal.Reason)
	}
}

func describeEnd(r *ledger.Reservation, before, after glance, add adder) {
	if after.end != "" && before.end == "" {
		why := ""
		if r.History != nil && r.EndMessage != "" {
			why = ": " + r.EndMessage
		}
		switch after.end {
		case ledger.EndFailed, ledger.EndPreempted:
			add(Failed, Data{Reason: string(after.end)}, "%s of %s has failed%s", r.Name, r.Requester, why)
		default:
			if !after.isOver() {
				add(Ending, Data{Reason: string(after.end)}, "%s of %s ends%s", r.Name, r.Requester, why)
			}
		}
	}
	if before.exists && after.isOver() && !before.isOver() {
		add(Ended, Data{Reason: string(after.end)}, "nothing is left of %s of %s", r.Name, r.Requester)
	}
}

// describeCluster returns the events of a record that concerns no reservation. The caller must call
// it before it applies the record.
func (b *Book) describeCluster(e *ledger.Event) []Event {
	about := func(t Type, clusterID, message string) []Event {
		return []Event{{Type: t, Subject: clusterID, Data: Data{Cluster: clusterID, Message: message}}}
	}
	switch change := e.Change.(type) {
	case *ledger.Offer:
		known := b.state.Cluster(change.ClusterID)
		if known == nil || change.Agent && !known.Agent {
			return about(ClusterJoined, change.ClusterID, "cluster "+change.ClusterID+" takes part")
		}
	case *ledger.Silence:
		if change.Since.IsZero() {
			return about(ClusterBack, change.ClusterID, "the agent of cluster "+change.ClusterID+" is back")
		}
		return about(ClusterSilent, change.ClusterID, "the agent of cluster "+change.ClusterID+" has sent nothing since "+change.Since.UTC().Format(time.RFC3339))
	case *ledger.ForgetCluster:
		return about(ClusterLost, change.ClusterID, "cluster "+change.ClusterID+" was removed because it is gone for good")
	case *ledger.Configure:
		return describeConfigure(change)
	case *ledger.Lineage:
		if change.By != "" {
			return []Event{{Type: JournalRestored, Subject: change.ID, Data: Data{
				Message: fmt.Sprintf("the journal was restored from an older state: position %d was lost, as %s knows", change.Seen, change.By),
			}}}
		}
	}
	return nil
}

// describeConfigure names the changed fields. It leaves out their values, which may be
// confidential.
func describeConfigure(change *ledger.Configure) []Event {
	var fields map[string]json.RawMessage
	if json.Unmarshal(change.Difference, &fields) != nil {
		return nil
	}
	delete(fields, "generation")
	if len(fields) == 0 {
		return nil
	}
	return []Event{{Type: ConfigChanged, Subject: "default", Data: Data{
		Message: "the BrokerConfig has changed: " + strings.Join(slices.Sorted(maps.Keys(fields)), ", "),
	}}}
}
