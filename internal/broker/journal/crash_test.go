package journal_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
)

// crashes maps the two sides of a call to the faults with which a process dies there.
var crashes = map[string]journaltest.Fault{
	"before": journaltest.Stopped,
	"after":  journaltest.StoppedAfter,
}

// TestCrashAtEveryCall lets a process die before and after each call that it makes to
// the API server, from the creation of the journal on, and lets the process that
// follows die at each call of its recovery as well.
func TestCrashAtEveryCall(t *testing.T) {
	dry := journaltest.NewServer()
	calls := lifeUntil(t, dry, nil).client.Calls()
	if calls < 60 {
		t.Fatalf("the story makes only %d calls", calls)
	}
	points := 0
	for n := 1; n <= calls; n++ {
		for side, fault := range crashes {
			t.Run(fmt.Sprintf("%s call %d", side, n), func(t *testing.T) {
				server := journaltest.NewServer()
				life := lifeUntil(t, server, dieAt(n, fault))
				wantRecovered(t, server.Clone(), life)
				points += crashRecovery(t, server, life)
			})
		}
	}
	t.Logf("%d crash points, then %d in recoveries", 2*calls, points)
}

// crashRecovery kills recoveries before and after each of their calls, checks that another one
// succeeds, and returns how many it killed.
func crashRecovery(t *testing.T, server *journaltest.Server, life deceased) int {
	dry := server.Clone().Client()
	recoverUntil(t, dry, nil)
	for n := 1; n <= dry.Calls(); n++ {
		for _, fault := range crashes {
			again := server.Clone()
			recoverUntil(t, again.Client(), dieAt(n, fault))
			wantRecovered(t, again, life)
		}
	}
	return 2 * dry.Calls()
}

func recoverUntil(t *testing.T, client *journaltest.Client, faults func(journaltest.Call) journaltest.Fault) {
	client.Inject(faults)
	synctest.Test(t, func(t *testing.T) {
		_, _, err := journal.Open(t.Context(), client, name, smallSegments)
		if err != nil && faults == nil {
			t.Errorf("open: %v", err)
		}
	})
}

func dieAt(n int, fault journaltest.Fault) func(journaltest.Call) journaltest.Fault {
	return func(call journaltest.Call) journaltest.Fault {
		if call.Number == n {
			return fault
		}
		return journaltest.None
	}
}

// deceased is what a process knew when it died.
type deceased struct {
	client *journaltest.Client
	// acknowledged holds the records known to be stored. tried may hold one more, whose outcome is
	// unknown.
	acknowledged, tried []string
	// checkpoint is the last position known to be checkpointed.
	checkpoint uint64
}

// lifeUntil runs a process until a fault kills it: the process appends through several segments,
// checkpoints, trims, and opens the journal again in between.
func lifeUntil(t *testing.T, server *journaltest.Server, faults func(journaltest.Call) journaltest.Fault) deceased {
	life := deceased{client: server.Client()}
	life.client.Inject(faults)
	synctest.Test(t, func(t *testing.T) {
		for generation := range 3 {
			o, err := open(life.client, smallSegments)
			if err != nil {
				return
			}
			defer o.end()
			for i, record := range series(fmt.Sprint("generation", generation), 12) {
				life.tried = append(slices.Clone(life.acknowledged), record)
				c := o.Append([]byte(record))
				if c.Wait(context.Background()) != nil {
					return
				}
				life.acknowledged = life.tried
				o.state = append(o.state, journal.Record{Position: c.Position(), Data: []byte(record)})
				if i != 7 {
					continue
				}
				position := o.Committed()
				if o.save(context.Background()) != nil {
					return
				}
				life.checkpoint = position
			}
			o.end()
		}
	})
	return life
}

// wantRecovered checks that a new process finds all acknowledged records and the last checkpoint,
// and can append, checkpoint and verify.
func wantRecovered(t *testing.T, server *journaltest.Server, life deceased) {
	t.Helper()
	client := server.Client()
	o, err := open(client, smallSegments)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	defer o.end()
	got := texts(o.state)
	if !slices.Equal(got, life.acknowledged) && !slices.Equal(got, life.tried) {
		t.Fatalf("recovered (-acknowledged +got):\n%s", cmp.Diff(life.acknowledged, got))
	}
	if o.found.CheckpointPosition < life.checkpoint {
		t.Errorf("recovered from checkpoint %d, but %d was valid", o.found.CheckpointPosition, life.checkpoint)
	}
	o.append(t, series("after", 8)...)
	if err := o.save(t.Context()); err != nil {
		t.Errorf("checkpoint after the crash: %v", err)
	}
	if _, err := journal.Verify(t.Context(), client, name, smallSegments); err != nil {
		t.Errorf("verify after the crash: %v", err)
	}
	wantNoRemains(t, server, o)
}

// wantNoRemains checks that only one chunk of a checkpoint is stored, after a new checkpoint.
func wantNoRemains(t *testing.T, server *journaltest.Server, o *owner) {
	t.Helper()
	chunks := 0
	for _, obj := range server.Objects() {
		if obj.Labels[journal.LabelPart] == journal.PartCheckpoint {
			chunks++
		}
	}
	if chunks != 1 {
		t.Errorf("%d chunks of checkpoints are stored, want 1", chunks)
	}
}
