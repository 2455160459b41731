package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// table is a table of candidates in an answer to a requester.
type table struct {
	reservation string
	candidates  []brokerv1alpha1.Candidate
	rejected    map[string]int32
}

// RequestReservation calls the broker, and remembers the table in its answer.
func (m *machine) RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	answer, err := m.Broker.RequestReservation(ctx, clusterID, key, req)
	if err == nil && len(answer.Candidates)+len(answer.Rejected) > 0 {
		m.tables = append(m.tables, table{answer.Name, answer.Candidates, answer.Rejected})
	}
	return answer, err
}

// tablesRecorded checks that the journal contains every table that a requester got, so that book
// and market are not needed to explain a decision. It skips reservations that began before the last
// checkpoint, because their records may be gone.
func (m *machine) tablesRecorded() error {
	_, recovery, err := journal.Follow(context.Background(), m.server.Client(), JournalName, journal.Options{})
	if err != nil {
		return err
	}
	recorded := map[string][]ledger.Explanation{}
	begun := map[string]bool{}
	for _, record := range recovery.Records {
		var e ledger.Event
		if err := e.UnmarshalJSON(record.Data); err != nil {
			return fmt.Errorf("record %d: %w", record.Position, err)
		}
		name, text := e.Reservation(), explanationIn(&e)
		if isFirst(&e) {
			begun[name] = true
		}
		if text != "" {
			recorded[name] = append(recorded[name], text)
		}
	}
	for _, t := range m.tables {
		if !begun[t.reservation] {
			continue
		}
		m.did["compare a recorded table"]++
		same := func(text ledger.Explanation) bool {
			return cmp.Equal(text.Candidates(), t.candidates) && cmp.Equal(text.Rejected(), t.rejected)
		}
		if !slices.ContainsFunc(recorded[t.reservation], same) {
			return fmt.Errorf("%s: the journal has %q, its requester got %+v and %v", t.reservation, recorded[t.reservation], t.candidates, t.rejected)
		}
	}
	return nil
}

// isFirst reports whether an event is the first one of its reservation.
func isFirst(e *ledger.Event) bool {
	switch change := e.Change.(type) {
	case *ledger.Reserve, *ledger.TakeQuote:
		return true
	case *ledger.Enqueue:
		return change.Request != nil
	}
	return false
}

// explanationIn returns the explanation in an event, "" if the event has none.
func explanationIn(e *ledger.Event) ledger.Explanation {
	switch change := e.Change.(type) {
	case *ledger.Reserve:
		return change.Explanation
	case *ledger.TakeQuote:
		return change.Explanation
	case *ledger.Enqueue:
		return change.Explanation
	case *ledger.Grant:
		return change.Explanation
	case *ledger.Move:
		return change.Explanation
	case *ledger.Heal:
		return change.Explanation
	case *ledger.End:
		return change.Explanation
	}
	return ""
}
