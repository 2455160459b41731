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

// walkOn returns all entries after a place, and checks where the walk starts.
func walkOn(t *testing.T, client *journaltest.Client, opts journal.Options, from journal.Place) ([]journal.Entry, error) {
	t.Helper()
	w, state, err := journal.Walk(t.Context(), client, name, opts, from)
	if err != nil {
		return nil, err
	}
	if at := w.Position(); at > from.Position || at > 0 && string(state) != fmt.Sprint("state at ", at) {
		t.Fatalf("the walk to %d starts with %q at %d", from.Position, state, at)
	}
	var out []journal.Entry
	for {
		entries, err := w.Next(t.Context())
		if err != nil || len(entries) == 0 {
			return out, err
		}
		for _, e := range entries {
			if e.Position == from.Position && e.Hash != from.Hash {
				t.Fatalf("position %d has hash %s, want %s", e.Position, e.Hash, from.Hash)
			}
			if e.Position > from.Position {
				out = append(out, e)
			}
		}
	}
}

// TestWalkContinuesFromEveryPlace walks to the end from every record that was ever the last one,
// over segments and checkpoints. Walks from a trimmed record fail with ErrNotFound.
func TestWalkContinuesFromEveryPlace(t *testing.T) {
	for title, retention := range map[string]time.Duration{"with a retention": 8 * time.Hour, "without a retention": -1} {
		t.Run(title, func(t *testing.T) {
			now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			server := journaltest.NewServer()
			server.Now = func() time.Time { return now }
			opts := journal.Options{SegmentBytes: 200, RetainFor: retention}
			o := mustOpen(t, server.Client(), opts)
			var places []journal.Place
			for step := range 62 {
				now = now.Add(30 * time.Minute)
				for _, r := range series(fmt.Sprint("step", step), step%7) {
					o.append(t, r)
					end, err := journal.End(t.Context(), server.Client(), name, opts)
					runtest.Check(t, err)
					places = append(places, end)
				}
				if step%5 == 4 {
					runtest.Check(t, o.Checkpoint(t.Context(), fmt.Append(nil, "state at ", o.Committed()), o.Committed(), now))
				}
			}
			kept, err := journal.ReadKept(t.Context(), server.Client(), name, opts)
			runtest.Check(t, err)
			walked := 0
			for _, from := range places {
				got, err := walkOn(t, server.Client(), opts, from)
				if _, _, baseErr := kept.BaseAt(t.Context(), from.Position); baseErr != nil {
					if !errors.Is(err, journal.ErrNotFound) {
						t.Fatalf("from %d, which was trimmed: %v", from.Position, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("from %d: %v", from.Position, err)
				}
				want := kept.Entries
				for len(want) > 0 && want[0].Position <= from.Position {
					want = want[1:]
				}
				if diff := cmp.Diff(len(want), len(got)); diff != "" {
					t.Fatalf("from %d: entries (-want +got):\n%s", from.Position, diff)
				}
				for i := range want {
					if diff := cmp.Diff(want[i], got[i]); diff != "" {
						t.Fatalf("from %d (-want +got):\n%s", from.Position, diff)
					}
				}
				walked++
			}
			if walked < 3 {
				t.Errorf("only %d of %d places could be walked from", walked, len(places))
			}
		})
	}
}

func TestWalkReadsOneSegmentAtATime(t *testing.T) {
	server := journaltest.NewServer()
	o := mustOpen(t, server.Client(), smallSegments)
	w, _, err := journal.Walk(t.Context(), server.Client(), name, smallSegments, journal.Place{Journal: o.ID()})
	runtest.Check(t, err)
	for _, r := range series("n", 200) {
		o.append(t, r)
	}
	segments := countParts(server)[journal.PartSegment]
	calls, read := 0, 0
	for {
		entries, err := w.Next(t.Context())
		runtest.Check(t, err)
		if len(entries) == 0 {
			break
		}
		calls, read = calls+1, read+len(entries)
	}
	if uint64(read) != o.Committed() || calls < segments {
		t.Errorf("read %d of %d records of %d segments with %d calls", read, o.Committed(), segments, calls)
	}
}

func TestWalkNoticesAnotherHistory(t *testing.T) {
	server := journaltest.NewServer()
	o := mustOpen(t, server.Client(), smallSegments)
	o.append(t, series("n", 20)...)
	snapshot := server.Clone()
	o.append(t, series("lost", 20)...)
	end, err := journal.End(t.Context(), server.Client(), name, smallSegments)
	runtest.Check(t, err)
	w, _, err := journal.Walk(t.Context(), server.Client(), name, smallSegments, end)
	runtest.Check(t, err)
	for {
		entries, err := w.Next(t.Context())
		runtest.Check(t, err)
		if len(entries) == 0 {
			break
		}
	}
	o.end()
	server.Restore(snapshot)
	if _, err := w.Next(t.Context()); !errors.Is(err, journal.ErrDiverged) {
		t.Errorf("of a journal that ends earlier: %v", err)
	}
	if _, _, err := journal.Walk(t.Context(), server.Client(), name, smallSegments, end); !errors.Is(err, journal.ErrDiverged) {
		t.Errorf("to a place that was lost: %v", err)
	}
	again := mustOpen(t, server.Client(), smallSegments)
	again.append(t, series("other", 40)...)
	if _, err := w.Next(t.Context()); !errors.Is(err, journal.ErrDiverged) {
		t.Errorf("of a journal with other records: %v", err)
	}
	end.Journal = "another"
	if _, _, err := journal.Walk(t.Context(), server.Client(), name, smallSegments, end); !errors.Is(err, journal.ErrDiverged) {
		t.Errorf("to a place in another journal: %v", err)
	}
}
