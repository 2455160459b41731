package journal_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
)

func TestCheckpointSizes(t *testing.T) {
	tests := map[string]struct {
		size       int
		wantChunks int
	}{
		"an empty state":               {size: 0, wantChunks: 0},
		"one byte":                     {size: 1, wantChunks: 1},
		"exactly one chunk":            {size: 512 << 10, wantChunks: 1},
		"one byte more than one chunk": {size: 512<<10 + 1, wantChunks: 2},
		"ten chunks":                   {size: 5 << 20, wantChunks: 10},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			server := journaltest.NewServer()
			o := mustOpen(t, server.Client(), journal.Options{})
			o.append(t, "covered")
			state := bytes.Repeat([]byte{0xff}, test.size)
			position := o.Committed()
			for range 2 {
				if err := o.Checkpoint(t.Context(), state, position, time.Time{}); err != nil {
					t.Fatalf("checkpoint: %v", err)
				}
			}
			o.append(t, "after")
			_, found, err := journal.Follow(t.Context(), server.Client(), name, journal.Options{})
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			if found.CheckpointPosition != position || !bytes.Equal(found.Checkpoint, state) {
				t.Errorf("checkpoint at %d with %d bytes, want %d with %d", found.CheckpointPosition, len(found.Checkpoint), position, test.size)
			}
			if diff := cmp.Diff([]string{"after"}, texts(found.Records)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if got := countParts(server)[journal.PartCheckpoint]; got != test.wantChunks {
				t.Errorf("%d chunks, want %d", got, test.wantChunks)
			}
		})
	}
}

func TestCheckpointPosition(t *testing.T) {
	server := journaltest.NewServer()
	o := mustOpen(t, server.Client(), journal.Options{})
	o.append(t, series("n", 5)...)
	head := o.Committed()
	if err := o.Checkpoint(t.Context(), []byte("good"), head-1, time.Time{}); err != nil {
		t.Fatalf("checkpoint: %v", err)
	}
	for title, position := range map[string]uint64{
		"position 0":                 0,
		"a position not yet reached": head + 10,
		"one before the last":        head - 2,
	} {
		if err := o.Checkpoint(t.Context(), []byte("bad"), position, time.Time{}); err == nil {
			t.Errorf("a checkpoint at %s is accepted", title)
		}
	}
	_, found, err := journal.Follow(t.Context(), server.Client(), name, journal.Options{})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if diff := cmp.Diff([]string{`{"n":4}`}, texts(found.Records)); diff != "" || string(found.Checkpoint) != "good" {
		t.Errorf("checkpoint %q, records (-want +got):\n%s", found.Checkpoint, diff)
	}
}

// TestRetention seals segments at hours 1, 2, 3 and so on, and writes a checkpoint of all of
// them at hour 10.
func TestRetention(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		retainFor      time.Duration
		retainSegments int
		want           int
		// atLimit is true if the journal may have deleted segments that are younger than retainFor.
		atLimit bool
	}{
		"by default a day":       {want: 9},
		"by age":                 {retainFor: 4*time.Hour + time.Minute, want: 4},
		"by number":              {retainFor: 1000 * time.Hour, retainSegments: 6, want: 6, atLimit: true},
		"by number if that ends": {retainFor: 5*time.Hour + time.Minute, retainSegments: 2, want: 2, atLimit: true},
		"not at all by age":      {retainFor: -1, want: 0},
		"not at all by number":   {retainSegments: -1, want: 0, atLimit: true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			server := journaltest.NewServer()
			opts := journal.Options{SegmentBytes: 1, RetainFor: test.retainFor, RetainSegments: test.retainSegments}
			o := mustOpen(t, server.Client(), opts)
			now := start
			server.Now = func() time.Time { return now }
			for range 9 {
				now = now.Add(time.Hour)
				o.append(t, "one segment each")
			}
			now = now.Add(time.Hour)
			if err := o.Checkpoint(t.Context(), []byte("state"), o.Committed(), now); err != nil {
				t.Fatalf("checkpoint: %v", err)
			}
			// The segments to keep are chosen before the record of the checkpoint is written, which
			// seals one more.
			if got := countParts(server)[journal.PartSegment] - 1; got != test.want {
				t.Errorf("%d segments are kept, want %d", got, test.want)
			}
			verified, err := journal.VerifyAnchored(t.Context(), server.Client(), name, opts, nil)
			if err != nil {
				t.Fatalf("verify: %v", err)
			}
			if verified.AtLimit != test.atLimit {
				t.Errorf("with %d segments the journal is at its limit: %t, want %t", verified.Segments, verified.AtLimit, test.atLimit)
			}
			if want := test.want + 2; verified.Segments != want {
				t.Errorf("verified %d segments, want %d", verified.Segments, want)
			}
		})
	}
}

// TestCheckpointAfterAFailedOneSucceeds lets the API server fail at each part of a checkpoint. Appends continue,
// and the next checkpoint succeeds and deletes the remains.
func TestCheckpointAfterAFailedOneSucceeds(t *testing.T) {
	for _, part := range []string{"create test-checkpoint", "list ", "delete test-checkpoint", "delete test-journal"} {
		t.Run(part, func(t *testing.T) {
			server := journaltest.NewServer()
			o := mustOpen(t, server.Client(), smallSegments)
			o.append(t, series("n", 20)...)
			if err := o.save(t.Context()); err != nil {
				t.Fatalf("first checkpoint: %v", err)
			}
			o.append(t, series("m", 20)...)
			o.client.Inject(func(call journaltest.Call) journaltest.Fault {
				if strings.HasPrefix(call.Verb+" "+call.Name, part) {
					return journaltest.Refused
				}
				return journaltest.None
			})
			wantErrors(t, o.save(t.Context()), journal.ErrUnavailable)
			o.append(t, series("k", 20)...)
			o.client.Inject(nil)
			if err := o.save(t.Context()); err != nil {
				t.Errorf("checkpoint after the failed one: %v", err)
			}
			if got := countParts(server); got[journal.PartCheckpoint] != 1 || got[journal.PartSegment] > 2 {
				t.Errorf("stored parts: %v, want one chunk and the segments since the checkpoint", got)
			}
		})
	}
}

func countParts(server *journaltest.Server) map[string]int {
	parts := map[string]int{}
	for _, obj := range server.Objects() {
		parts[obj.Labels[journal.LabelPart]]++
	}
	return parts
}
