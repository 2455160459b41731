package journal

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// MaxRecordBytes is the largest record that Append takes.
	MaxRecordBytes = 64 << 10
	// maxBatchBytes ends a batch, so that a full tail plus one batch stays well
	// below the 1 MiB that a ConfigMap may hold.
	maxBatchBytes = 256 << 10
	// maxSegmentBytes is the largest size at which a segment may be sealed.
	maxSegmentBytes = 512 << 10
	// chunkBytes is the size of a checkpoint's chunks.
	chunkBytes = 512 << 10
)

// Options tune a journal. The zero value of each field stands for its default.
type Options struct {
	// SegmentBytes is the size, packed, from which a tail is sealed: 8 KiB by default.
	// Every append writes the whole tail, so a larger one costs latency, CPU and space in
	// etcd; a smaller one costs more seals and objects.
	SegmentBytes int
	// QueueRecords is how many records may wait for a commit: 8192 by default.
	QueueRecords int
	// AttemptTimeout bounds one call to the API server: 5 s by default.
	AttemptTimeout time.Duration
	// OutcomeTimeout bounds how long a call whose outcome is unknown is repeated until
	// it is known: 15 s by default.
	OutcomeTimeout time.Duration
	// RetainFor is how long a sealed segment is kept after a checkpoint has made it
	// unnecessary, for audit: 24 h by default, negative for not at all.
	RetainFor time.Duration
	// RetainSegments bounds the number of such segments: 4096 by default, negative for none. It
	// protects etcd from a long retention under load.
	RetainSegments int
}

func (o Options) withDefaults() Options {
	setDefault(&o.SegmentBytes, 8<<10)
	setDefault(&o.QueueRecords, 8192)
	setDefault(&o.AttemptTimeout, 5*time.Second)
	setDefault(&o.OutcomeTimeout, 15*time.Second)
	setDefault(&o.RetainFor, 24*time.Hour)
	setDefault(&o.RetainSegments, 4096)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

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
