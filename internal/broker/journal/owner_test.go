package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
)

const name = "test"

// smallSegments are options with which a few records fill a segment, and nothing is kept that a
// checkpoint makes unnecessary.
var smallSegments = journal.Options{SegmentBytes: 200, RetainFor: -1}

// owner is a process that keeps its state in a journal. The state is the list of all
// its records, so that none can be lost, doubled or reordered unseen.
type owner struct {
	*journal.Journal
	client *journaltest.Client
	found  journal.Recovery
	state  []journal.Record
	stop   context.CancelFunc
	ended  chan error
}

// open starts an owner and its Run.
func open(client *journaltest.Client, opts journal.Options) (*owner, error) {
	j, found, err := journal.Open(context.Background(), client, name, opts)
	if err != nil {
		return nil, err
	}
	state, err := replay(found)
	if err != nil {
		return nil, err
	}
	return start(j, client, found, state), nil
}

func start(j *journal.Journal, client *journaltest.Client, found journal.Recovery, state []journal.Record) *owner {
	ctx, stop := context.WithCancel(context.Background())
	o := &owner{Journal: j, client: client, found: found, state: state, stop: stop, ended: make(chan error, 1)}
	go func() { o.ended <- j.Run(ctx) }()
	return o
}

func mustOpen(t *testing.T, client *journaltest.Client, opts journal.Options) *owner {
	t.Helper()
	o, err := open(client, opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(o.end)
	return o
}

// end stops Run and waits until it has returned.
func (o *owner) end() {
	o.stop()
	if err, ok := <-o.ended; ok {
		_ = err // Tests that expect an error read it themselves.
		close(o.ended)
	}
}

// append appends records, waits for all of them, and adds them to the state.
func (o *owner) append(t *testing.T, records ...string) {
	t.Helper()
	var commits []*journal.Commit
	for _, r := range records {
		commits = append(commits, o.Append([]byte(r)))
	}
	for i, c := range commits {
		if err := c.Wait(t.Context()); err != nil {
			t.Fatalf("append %q: %v", records[i], err)
		}
		o.state = append(o.state, journal.Record{Position: c.Position(), Data: []byte(records[i])})
	}
}

// save writes a checkpoint of the state, at the last committed position.
func (o *owner) save(ctx context.Context) error {
	return o.saveAt(ctx, o.state, o.Committed())
}

func (o *owner) saveAt(ctx context.Context, state []journal.Record, position uint64) error {
	encoded, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return o.Checkpoint(ctx, encoded, position, time.Time{})
}

// replay returns the state that results from a recovery.
func replay(found journal.Recovery) ([]journal.Record, error) {
	var state []journal.Record
	if found.CheckpointPosition > 0 {
		if err := json.Unmarshal(found.Checkpoint, &state); err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
	}
	return append(state, found.Records...), nil
}

// texts returns the records without positions.
func texts(records []journal.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, string(r.Data))
	}
	return all
}

// series returns numbered records, in JSON.
func series(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"%s":%d}`, prefix, i))
	}
	return all
}
