package journal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// keyChunk is the key of a checkpoint chunk's content.
const keyChunk = "chunk"

// checkpointRef names a checkpoint and proves it.
type checkpointRef struct {
	Position uint64 `json:"position"`
	Hash     digest `json:"hash"`
	Bytes    int    `json:"bytes"`
	Chunks   int    `json:"chunks"`
}

// Checkpoint stores state, which stands for all records up to and including position,
// so that the next Open needs only those after it. Position must be committed and not
// lie before the last checkpoint. Appends may go on meanwhile.
//
// The chunks count for nothing until one record names them; after that, older
// checkpoints are deleted, and so are sealed segments which this checkpoint covers and
// which, at now, the retention does not ask for. An error leaves the journal as good as
// it was; if the checkpoint is valid but tidying up failed, the next one does the rest.
func (j *Journal) Checkpoint(ctx context.Context, state []byte, position uint64, now time.Time) error {
	j.checkpointing.Lock()
	defer j.checkpointing.Unlock()
	ref := checkpointRef{
		Position: position,
		Hash:     sha256.Sum256(state),
		Bytes:    len(state),
		Chunks:   (len(state) + chunkBytes - 1) / chunkBytes,
	}
	if err := j.checkCheckpoint(ref); err != nil {
		return err
	}
	if err := j.writeChunks(ctx, ref, state); err != nil {
		return fmt.Errorf("journal %q: checkpoint at position %d: %w", j.name, position, err)
	}
	failpoint.Hit(failpoint.CheckpointWritten)
	trimmed, err := j.trimmable(ctx, position, now)
	if err != nil {
		return fmt.Errorf("journal %q: checkpoint at position %d: %w", j.name, position, err)
	}
	if err := j.validate(ctx, ref, trimmed); err != nil {
		return fmt.Errorf("journal %q: checkpoint at position %d: %w", j.name, position, err)
	}
	failpoint.Hit(failpoint.CheckpointValid)
	if err := j.trim(ctx, ref, trimmed); err != nil {
		return fmt.Errorf("journal %q: checkpoint at position %d is valid, but what it makes unnecessary remains: %w", j.name, position, err)
	}
	return nil
}

func (j *Journal) checkCheckpoint(ref checkpointRef) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cause != nil {
		return fmt.Errorf("%w: journal %q has stopped: %w", ErrUnavailable, j.name, j.cause)
	}
	if ref.Position == 0 || ref.Position > j.committed {
		return fmt.Errorf("journal %q: checkpoint at position %d: only positions from 1 to %d are committed", j.name, ref.Position, j.committed)
	}
	if j.checkpoint != nil && ref.Position < j.checkpoint.Position {
		return fmt.Errorf("journal %q: checkpoint at position %d lies before the last one at %d", j.name, ref.Position, j.checkpoint.Position)
	}
	return nil
}

func (j *Journal) writeChunks(ctx context.Context, ref checkpointRef, state []byte) error {
	for i := range ref.Chunks {
		err := j.put(ctx, Object{
			Name:      j.name.chunk(ref, i),
			Labels:    j.name.labels(PartCheckpoint),
			Binary:    map[string][]byte{keyChunk: state[i*chunkBytes : min((i+1)*chunkBytes, len(state))]},
			Immutable: true,
		})
		if err != nil {
			return fmt.Errorf("write chunk %d of %d: %w", i+1, ref.Chunks, err)
		}
	}
	return nil
}

// validate appends the record that makes a checkpoint valid. The record keeps the
// state's hash in the chain; the header, which the same update writes, saves looking
// for it.
func (j *Journal) validate(ctx context.Context, ref checkpointRef, trimmed uint64) error {
	payload, err := json.Marshal(ref)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	return j.enqueue(kindCheckpoint, payload, func(b *batch) {
		b.checkpoint, b.trimmed = &ref, trimmed
	}).Wait(ctx)
}
