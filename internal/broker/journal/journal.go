package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// While fewer records than expected are queued, Run waits until no record has arrived for gatherPause, but at most for
// longestGather, which is a few times the duration of an update on an otherwise idle machine. See gatherRecords.
const (
	gatherPause   = 3 * time.Millisecond
	longestGather = 12 * time.Millisecond
)

// Journal is one writer's access to the log, from Open until the first failure.
type Journal struct {
	writer
	id string

	// tail is the last committed segment as stored. Only Run uses it.
	tail tail

	// checkpointing allows one checkpoint at a time.
	checkpointing sync.Mutex
	// wake tells Run that the queue is not empty. It holds one message.
	wake chan struct{}

	// mu guards the fields below.
	mu sync.Mutex
	// queue holds the batches that have not been sent.
	queue  []*batch
	queued int
	// next is the place of the newest record, which may not be stored yet.
	next link
	// committed is the last place known to be stored.
	committed link
	// checkpoint is the newest valid checkpoint. Sealed segments up to the position trimmed may
	// be gone.
	checkpoint *checkpointRef
	trimmed    uint64
	// cause is why the journal no longer accepts records; nil while it does.
	cause error
}

// batch is a set of records that one update commits.
type batch struct {
	lines   []byte
	records int
	head    link
	// checkpoint and trimmed are new values for the fields Checkpoint and Trimmed of the header. They are set if one of
	// the records belongs to a checkpoint.
	checkpoint *checkpointRef
	trimmed    uint64
	// callers counts the commits on which a caller waits.
	callers atomic.Int32
	// err is the outcome once done is closed.
	done chan struct{}
	err  error
}

func (b *batch) setOutcome(err error) {
	b.err = err
	close(b.done)
}

// Commit is a record on its way into the journal.
type Commit struct {
	batch    *batch
	position uint64
	awaited  atomic.Bool
}

// Position returns the record's place in the journal, 0 if the record was refused. Positions only grow. The journal's
// own records also take positions, so the owner's positions have gaps.
func (c *Commit) Position() uint64 { return c.position }

// Done returns a channel that is closed when the outcome is known.
func (c *Commit) Done() <-chan struct{} { return c.batch.done }

// Wait returns nil once the record is durable. The error wraps ErrUnavailable if the record is
// not stored and never will be. Otherwise it wraps ErrUnknown or ErrFenced, or it is the error
// of ctx while the outcome is still open.
func (c *Commit) Wait(ctx context.Context) error {
	select {
	case <-c.batch.done:
		return c.batch.err
	default:
	}
	if !c.awaited.Swap(true) {
		c.batch.callers.Add(1)
	}
	select {
	case <-c.batch.done:
		return c.batch.err
	case <-ctx.Done():
		return fmt.Errorf("wait for journal position %d: %w", c.position, ctx.Err())
	}
}

// refusedCommit returns the commit of a record that was not accepted.
func refusedCommit(err error) *Commit {
	b := &batch{done: make(chan struct{})}
	b.setOutcome(err)
	return &Commit{batch: b}
}

// ID returns the random ID of the journal, which is the same for all its writers.
func (j *Journal) ID() string { return j.id }

// Err returns nil while the journal accepts records. Afterwards it returns why the journal
// stopped.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cause
}

// Append queues a record for the next commit, in the order of the calls, and does not block. It
// keeps no reference to record. A record of one-line JSON is stored unchanged, any other record
// in base64.
func (j *Journal) Append(record []byte) *Commit {
	if len(record) > MaxRecordBytes {
		return refusedCommit(fmt.Errorf("journal %q: %w, %w: %d bytes, at most %d are allowed",
			j.name, ErrUnavailable, ErrTooLarge, len(record), MaxRecordBytes))
	}
	return j.queueRecord(kindRecord, record, nil)
}

// queueRecord gives the record its place and adds it to the last batch that has room.
func (j *Journal) queueRecord(kind kind, payload []byte, onBatch func(*batch)) *Commit {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cause != nil {
		return refusedCommit(fmt.Errorf("%w: journal %q has stopped: %w", ErrUnavailable, j.name, j.cause))
	}
	if j.queued >= j.opts.QueueRecords {
		return refusedCommit(fmt.Errorf("journal %q: %w, %w: %d records wait for the API server", j.name, ErrUnavailable, ErrFull, j.queued))
	}
	b := j.openBatch()
	j.next = j.next.after(kind, payload)
	b.lines = appendLine(b.lines, j.next, kind, payload)
	b.head = j.next
	b.records++
	j.queued++
	if onBatch != nil {
		onBatch(b)
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
	return &Commit{batch: b, position: j.next.Position}
}

func (j *Journal) openBatch() *batch {
	if n := len(j.queue); n > 0 && len(j.queue[n-1].lines)+2*MaxRecordBytes <= maxBatchBytes {
		return j.queue[n-1]
	}
	b := &batch{done: make(chan struct{})}
	j.queue = append(j.queue, b)
	return b
}

// Run commits appended records until ctx is done, when it returns nil, or until the first
// failure, which it returns. In both cases the journal has then stopped, and every commit is
// finished. Run completes a commit that is in flight when ctx is done.
func (j *Journal) Run(ctx context.Context) error {
	for expected := 0; ; {
		j.gatherRecords(ctx, expected)
		if ctx.Err() != nil {
			j.stopWith(context.Cause(ctx))
			return nil
		}
		b := j.takeBatch()
		if b == nil {
			select {
			case <-j.wake:
			case <-ctx.Done():
			}
			continue
		}
		if err := j.commitBatch(context.WithoutCancel(ctx), b); err != nil {
			j.stopWith(err)
			b.setOutcome(err)
			return err
		}
		expected = j.acknowledgeBatch(b)
	}
}

// gatherRecords waits until the expected number of records is queued, but only while more
// keep coming. A caller that was just answered often sends its next record at once. Without
// the wait, half of the callers would always queue while the records of the other half are
// being stored, which takes twice as many updates. A single caller never waits, however
// many records it writes at a time.
func (j *Journal) gatherRecords(ctx context.Context, expected int) {
	if n := j.queuedRecords(); n == 0 || n >= expected {
		return
	}
	enough := time.NewTimer(longestGather)
	defer enough.Stop()
	idle := time.NewTimer(gatherPause)
	defer idle.Stop()
	for j.queuedRecords() < expected {
		select {
		case <-j.wake:
			idle.Reset(gatherPause)
		case <-idle.C:
			return
		case <-enough.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (j *Journal) queuedRecords() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.queued
}

func (j *Journal) takeBatch() *batch {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) == 0 {
		return nil
	}
	b := j.queue[0]
	j.queue = j.queue[1:]
	j.queued -= b.records
	return b
}

// acknowledgeBatch finishes the commits of a stored batch, and returns for how many records the next batch should wait.
func (j *Journal) acknowledgeBatch(b *batch) int {
	j.mu.Lock()
	callers := int(b.callers.Load())
	expected := callers + j.queued
	if callers < j.queued {
		expected = 0
	}
	j.committed = b.head
	if b.checkpoint != nil {
		j.checkpoint, j.trimmed = b.checkpoint, b.trimmed
	}
	j.mu.Unlock()
	b.setOutcome(nil)
	return expected
}

// stopWith refuses all further records, and those in the queue.
func (j *Journal) stopWith(cause error) {
	j.mu.Lock()
	queue := j.queue
	j.queue, j.queued, j.cause = nil, 0, cause
	j.mu.Unlock()
	for _, b := range queue {
		b.setOutcome(fmt.Errorf("%w: journal %q has stopped: %w", ErrUnavailable, j.name, cause))
	}
}

func (j *Journal) commitBatch(ctx context.Context, b *batch) error {
	failpoint.Hit(failpoint.JournalAppending)
	done := func() {}
	if j.opts.OnCommit != nil {
		done = j.opts.OnCommit(b.records)
	}
	stored, err := j.tail.extendWith(ctx, j.writer, b)
	if err != nil {
		return fmt.Errorf("journal %q, append up to position %d: %w", j.name, b.head.Position, err)
	}
	failpoint.Hit(failpoint.JournalAppended)
	done()
	j.tail = stored
	return nil
}

// isRefusal reports whether a store's error means that nothing was changed.
func isRefusal(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrConflict) ||
		errors.Is(err, ErrExists) || errors.Is(err, ErrNotFound)
}
