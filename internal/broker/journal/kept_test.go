package journal_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestKeptRecordsCanBeReplayed writes a checkpoint every half hour for two days. Every four hours,
// the records of three quarters of the retention must be replayable from a stored checkpoint. At no
// time may more than six checkpoints be stored.
func TestKeptRecordsCanBeReplayed(t *testing.T) {
	const retention = 8 * time.Hour
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	server := journaltest.NewServer()
	server.Now = func() time.Time { return now }
	opts := journal.Options{SegmentBytes: 200, RetainFor: retention}
	o := mustOpen(t, server.Client(), opts)
	positions := map[time.Time]uint64{}
	for step := range 96 {
		now = now.Add(30 * time.Minute)
		o.append(t, series(fmt.Sprint("step", step), 6)...)
		positions[now] = o.Committed()
		runtest.Check(t, o.Checkpoint(t.Context(), fmt.Append(nil, "state at ", o.Committed()), o.Committed(), now))
		if got := countParts(server)[journal.PartCheckpoint]; got > 6 {
			t.Fatalf("after %d checkpoints %d are stored", step+1, got)
		}
		if step%8 == 7 {
			wantReplayable(t, server, opts, positions, now.Add(-retention*3/4))
		}
	}
}

// wantReplayable checks that the state at each position since a time can be replayed, and that the
// state before the kept records cannot.
func wantReplayable(t *testing.T, server *journaltest.Server, opts journal.Options, positions map[time.Time]uint64, since time.Time) {
	t.Helper()
	kept, err := journal.ReadKept(t.Context(), server.Client(), name, opts)
	runtest.Check(t, err)
	first := kept.Entries[0].Position
	for at, position := range positions {
		if at.Before(since) {
			continue
		}
		state, base, err := kept.BaseAt(t.Context(), position)
		if err != nil {
			t.Fatalf("position %d: %v", position, err)
		}
		if base > position || base != 0 && (base+1 < first || string(state) != fmt.Sprint("state at ", base)) {
			t.Fatalf("position %d is replayed from %q at %d, and the records begin at %d", position, state, base, first)
		}
	}
	if _, oldest, err := kept.OldestBase(t.Context()); err != nil || oldest != 0 && oldest+1 < first {
		t.Errorf("the oldest state is at %d: %v", oldest, err)
	}
	if kept.After == 0 {
		return
	}
	if _, _, err := kept.BaseAt(t.Context(), kept.After-1); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("a state before the kept records: %v", err)
	}
}

func TestKeptRecordsAreTheChain(t *testing.T) {
	server := journaltest.NewServer()
	o := mustOpen(t, server.Client(), journal.Options{SegmentBytes: 200})
	o.append(t, series("n", 20)...)
	o.append(t, "no JSON\n")
	runtest.Check(t, o.save(t.Context()))
	kept, err := journal.ReadKept(t.Context(), server.Client(), name, journal.Options{})
	runtest.Check(t, err)
	var data []string
	before := kept.Entries[0].Prev
	for i, e := range kept.Entries {
		next, err := journal.NextHash(before, uint64(i+1), e.Kind, e.Data)
		if err != nil || next != e.Hash || e.Prev != before || e.Position != uint64(i+1) {
			t.Fatalf("record %d at position %d: hash %s after %s, want %s after %s: %v", i+1, e.Position, e.Hash, e.Prev, next, before, err)
		}
		before = next
		if e.Kind == "record" {
			data = append(data, string(e.Data))
		}
	}
	if diff := cmp.Diff(texts(o.state), data); diff != "" || before != o.Anchor().Hash {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}
