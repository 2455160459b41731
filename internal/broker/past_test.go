package broker

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// seen is what the broker showed at one position.
type seen struct {
	position     uint64
	at           time.Time
	Clusters     []*ClusterView
	Reservations []*views.Reservation
}

func (f *fleet) see() seen {
	f.t.Helper()
	p := Past{b: f.Broker}
	clusters, err := p.Clusters(context.Background())
	runtest.Check(f.t, err)
	return seen{f.session.book.Position(), time.Now(), clusters, p.Reservations()}
}

// textOf returns the views as JSON. It omits when agents were last heard, because the journal does
// not record it.
func textOf(t *testing.T, s seen) string {
	t.Helper()
	for _, c := range s.Clusters {
		c.Heard = time.Time{}
	}
	text, err := json.MarshalIndent(s, "", " ")
	runtest.Check(t, err)
	return string(text)
}

func noConfig(json.RawMessage) (settings.Config, error) { return settings.Default(), nil }

// What the broker showed after each step of some reservations is compared with a replay of its
// journal. The replay must write nothing.
func TestPastShowsWhatTheBrokerShowed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		var steps []seen
		step := func() {
			time.Sleep(time.Second)
			steps = append(steps, f.see())
		}
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "8", "16Gi")
		f.advertise("oslo", "4", "8Gi")
		step()
		r := f.reserve("rome", "key-0001", onParis("3", "1Gi"))
		step()
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		step()
		waiting := request("6", "1Gi")
		waiting.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
		f.reserve("rome", "key-0002", waiting)
		step()
		f.release("rome", "key-0001")
		step()
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		step()

		before := f.server.Clone()
		kept, err := journal.ReadKept(context.Background(), f.server.Client(), JournalName, journal.Options{})
		runtest.Check(t, err)
		for _, want := range steps {
			recovery := journal.Recovery{ID: kept.ID}
			for _, e := range kept.Entries {
				if e.Kind == "record" && e.Position <= want.position {
					recovery.Records = append(recovery.Records, journal.Record{Position: e.Position, Data: e.Data})
				}
			}
			past, err := NewPast(recovery, want.at, noConfig)
			runtest.Check(t, err)
			clusters, err := past.Clusters(context.Background())
			runtest.Check(t, err)
			got := seen{want.position, want.at, clusters, past.Reservations()}
			if diff := cmp.Diff(textOf(t, want), textOf(t, got)); diff != "" {
				t.Errorf("position %d (-then +replayed):\n%s", want.position, diff)
			}
			if err := past.b.Confirm(context.Background()); err == nil {
				t.Error("the past can be changed")
			}
		}
		if diff := cmp.Diff(before.Objects(), f.server.Objects()); diff != "" {
			t.Errorf("objects of the journal (-before +after):\n%s", diff)
		}
	})
}
