package broker

import (
	"context"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

const (
	// A checkpoint spares the next start from replaying earlier events, but contains the whole
	// book. So at least checkpointRecords events pass between two checkpoints. A large book needs
	// more events, to limit the load on the API server: the number of its clusters and reservations
	// divided by checkpointShare.
	checkpointRecords = 2000
	checkpointShare   = 8
	// checkpointCheck is how often the broker checks whether a checkpoint is needed.
	checkpointCheck = 15 * time.Second
)

// keepCheckpoints writes checkpoints when they are needed, until ctx ends. written is the position
// of the last checkpoint.
func (s *session) keepCheckpoints(ctx context.Context, written uint64) {
	for range term.Every(ctx, checkpointCheck) {
		position, err := s.writeCheckpoint(ctx, written)
		if err != nil {
			s.log.Error(err, "no checkpoint was written; the next start replays more", "position", written)
			continue
		}
		written = position
	}
}

func (s *session) writeCheckpoint(ctx context.Context, written uint64) (uint64, error) {
	s.b.mu.Lock()
	position, last := s.book.Position(), s.last
	if s.b.session != s || last == nil || position < written+max(checkpointRecords, uint64(s.book.Size()/checkpointShare)) {
		s.b.mu.Unlock()
		return written, nil
	}
	frozen := s.whole.Freeze()
	s.b.mu.Unlock()
	snapshot, err := frozen.Encode()
	if err != nil {
		return written, err
	}
	if err := last.Wait(ctx); err != nil {
		return written, err
	}
	if err := s.journal.Checkpoint(ctx, snapshot, position, s.b.opts.Now()); err != nil {
		return written, err
	}
	return position, nil
}
