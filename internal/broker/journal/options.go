package journal

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// MaxRecordBytes is the largest record that Append takes.
	MaxRecordBytes = 64 << 10
	// maxBatchBytes limits the size of a batch, so that a full tail plus one batch stays well below
	// the 1 MiB that a ConfigMap may hold.
	maxBatchBytes = 256 << 10
	// maxSegmentBytes is the largest size at which a segment may be sealed.
	maxSegmentBytes = 512 << 10
	// chunkBytes is the size of a checkpoint's chunks.
	chunkBytes = 512 << 10
)

// readersSegments is how many sealed segments are kept for the readers of Options.Keep. If there are
// more than that, and more than RetainSegments, the oldest are deleted even if they were not read.
const readersSegments = 4096

// Options tune a journal. The zero value of a field means its default.
type Options struct {
	// SegmentBytes is the packed size from which a tail is sealed: 8 KiB by default. Every append
	// writes the whole tail, so a larger size costs latency, CPU and space in etcd; a smaller size
	// costs more seals and objects.
	SegmentBytes int
	// QueueRecords is how many records may wait for a commit: 8192 by default.
	QueueRecords int
	// AttemptTimeout bounds one call to the API server: 5 s by default.
	AttemptTimeout time.Duration
	// OutcomeTimeout bounds how long a call whose outcome is unknown is repeated until
	// it is known: 15 s by default.
	OutcomeTimeout time.Duration
	// RetainFor is how long a sealed segment is kept for audit after a checkpoint has made it
	// unnecessary: 24 h by default. A negative value means that it is not kept.
	RetainFor time.Duration
	// RetainSegments bounds how many segments are kept for audit: 4096 by default, negative for
	// none. It protects etcd from a long retention under load.
	RetainSegments int
	// Keep is for readers that must read every record: it returns the position up to which all of
	// them have read the journal. It is nil if there are no such readers. For them, later records
	// and a checkpoint from which these can be replayed are kept beyond RetainFor, up to 4096
	// segments or RetainSegments if that is more.
	Keep func() uint64
	// OnCommit, if set, is called before each write with the number of records in the write. The
	// function that it returns is called after the write has succeeded.
	OnCommit func(records int) (done func())
}

func (o Options) withDefaults() Options {
	o.SegmentBytes = cmp.Or(o.SegmentBytes, 8<<10)
	o.QueueRecords = cmp.Or(o.QueueRecords, 8192)
	o.AttemptTimeout = cmp.Or(o.AttemptTimeout, 5*time.Second)
	o.OutcomeTimeout = cmp.Or(o.OutcomeTimeout, 15*time.Second)
	o.RetainFor = cmp.Or(o.RetainFor, 24*time.Hour)
	o.RetainSegments = cmp.Or(o.RetainSegments, readersSegments)
	return o
}

// Retention returns how long sealed segments are kept, 0 if they are not kept.
func (o Options) Retention() time.Duration { return max(o.withDefaults().RetainFor, 0) }

func (o Options) checkOptions(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("journal name %q: %s", name, problems[0])
	}
	if o.SegmentBytes < 0 || o.SegmentBytes > maxSegmentBytes {
		return fmt.Errorf("journal %q: segment size %d is not within 1 and %d bytes", name, o.SegmentBytes, maxSegmentBytes)
	}
	if o.QueueRecords < 0 || o.AttemptTimeout < 0 || o.OutcomeTimeout < 0 {
		return fmt.Errorf("journal %q: queue length and timeouts must not be negative", name)
	}
	return nil
}
