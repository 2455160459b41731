package broker

import (
	"context"
	"time"
)

const (
	// checkpointRecords is after how many events, at least, a checkpoint spares the next
	// start from replaying them. A checkpoint writes the whole book: of a large one so
	// much has to change that this does not take the API server away from others.
	checkpointRecords = 2000
	checkpointShare   = 8
	// checkpointCheck is how often that is looked at.
	checkpointCheck = 15 * time.Second
)

// keepCheckpoints writes a checkpoint now and then until the term ends. The last one
// stands at position written.
func (s *session) keepCheckpoints(ctx context.Context, written uint64) {
	ticker := time.NewTicker(checkpointCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		position, err := s.checkpoint(ctx, written)
		if err != nil {
			s.log.Error(err, "no checkpoint was written; the next start replays more", "position", written)
			continue
		}
		written = position
	}
}

func (s *session) checkpoint(ctx context.Context, written uint64) (uint64, error) {
	s.b.mu.Lock()
	position, last := s.book.Position(), s.last
	if s.b.session != s || last == nil || position < written+max(checkpointRecords, uint64(s.book.Size()/checkpointShare)) {
		s.b.mu.Unlock()
		return written, nil
	}
	frozen := s.book.Freeze()
	s.b.mu.Unlock()
	snapshot, err := frozen.Bytes()
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
