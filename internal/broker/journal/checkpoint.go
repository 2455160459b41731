package journal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

const keyChunk = "chunk"

// checkpointRef identifies a checkpoint. Hash is the SHA-256 of its content.
type checkpointRef struct {
	Position uint64 `json:"position"`
	Hash     digest `json:"hash"`
	Bytes    int    `json:"bytes"`
	Chunks   int    `json:"chunks"`
}

// Checkpoint stores state, the result of all records up to and including position, so that the
// next Open needs only the later records. The position must be committed and must not lie before the
// last checkpoint. Append may be called while Checkpoint runs.
//
// The chunks have no effect until a record names them. After that, Checkpoint deletes older
// checkpoints. It also deletes sealed segments that the new checkpoint covers and whose retention
// is over at now. After an error the journal is as valid as before; if the checkpoint is valid and
// only the deletion failed, the next checkpoint deletes the rest.
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
	trimmed, err := j.trimBound(ctx, position, now)
	if err != nil {
		return fmt.Errorf("journal %q: checkpoint at position %d: %w", j.name, position, err)
	}
	if err := j.appendCheckpoint(ctx, ref, trimmed); err != nil {
		return fmt.Errorf("journal %q: checkpoint at position %d: %w", j.name, position, err)
	}
	failpoint.Hit(failpoint.CheckpointValid)
	if err := j.trimTo(ctx, ref, trimmed); err != nil {
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
	if ref.Position == 0 || ref.Position > j.committed.Position {
		return fmt.Errorf("journal %q: checkpoint at position %d: only positions from 1 to %d are committed", j.name, ref.Position, j.committed.Position)
	}
	if j.checkpoint != nil && ref.Position < j.checkpoint.Position {
		return fmt.Errorf("journal %q: checkpoint at position %d lies before the last one at %d", j.name, ref.Position, j.checkpoint.Position)
	}
	return nil
}

func (j *Journal) writeChunks(ctx context.Context, ref checkpointRef, state []byte) error {
	for i := range ref.Chunks {
		err := j.putObject(ctx, Object{
			Name:      j.name.chunkName(ref, i),
			Labels:    j.name.labelsOf(PartCheckpoint),
			Binary:    map[string][]byte{keyChunk: state[i*chunkBytes : min((i+1)*chunkBytes, len(state))]},
			Immutable: true,
		})
		if err != nil {
			return fmt.Errorf("write chunk %d of %d: %w", i+1, ref.Chunks, err)
		}
	}
	return nil
}

// appendCheckpoint appends the record that makes a checkpoint valid. It adds the hash of the
// state to the chain. The same update writes a reference into the header, so that readers
// need not search for the record.
func (j *Journal) appendCheckpoint(ctx context.Context, ref checkpointRef, trimmed uint64) error {
	payload, err := json.Marshal(ref)
	if err != nil {
		return fmt.Errorf("encode checkpoint: %w", err)
	}
	return j.queueRecord(kindCheckpoint, payload, func(b *batch) {
		b.checkpoint, b.trimmed = &ref, trimmed
	}).Wait(ctx)
}
