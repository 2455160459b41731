package journal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// reader reads and verifies a journal, from its tail backwards.
type reader struct {
	writer
	// sealed and states cache the segments by name and the checkpoints by hash. Segments and
	// checkpoints never change, so reading again after a conflict is quick.
	sealed map[string]history
	states map[digest][]byte
	// fetched are sealed segments that were read in advance.
	fetched map[string]Object
}

func newReader(w writer) reader {
	return reader{writer: w, sealed: map[string]history{}, states: map[digest][]byte{}, fetched: map[string]Object{}}
}

// contents is the journal at one version of its tail.
type contents struct {
	last history
	// version is the resourceVersion of the tail.
	version  string
	recovery Recovery
}

// readAll returns the last checkpoint and all records since. Without a tail, its error wraps
// ErrNotFound.
func (r reader) readAll(ctx context.Context) (found contents, err error) {
	err = r.readStable(ctx, func(obj Object) (err error) {
		found, err = r.readFrom(ctx, obj)
		return err
	})
	return found, err
}

// readStable calls read with the tail. If objects are missing or damaged and the tail has
// changed, it tries again: a live writer may have checkpointed and trimmed meanwhile.
func (r reader) readStable(ctx context.Context, read func(tail Object) error) error {
	for {
		obj, err := r.getObject(ctx, r.name.tailName())
		if err != nil {
			return err
		}
		err = read(obj)
		if _, corrupt := errors.AsType[*CorruptError](err); !corrupt {
			return err
		}
		again, getErr := r.getObject(ctx, r.name.tailName())
		if getErr != nil {
			return getErr
		}
		if again.ResourceVersion == obj.ResourceVersion {
			return err
		}
	}
}

func (r reader) readFrom(ctx context.Context, obj Object) (contents, error) {
	last, err := r.decodeSegment(obj)
	if err != nil {
		return contents{}, err
	}
	sealed, err := r.checkHead(ctx, last.header.Head.Position)
	if err != nil {
		return contents{}, err
	}
	r.prefetchSegments(ctx, sealed, last.checkpointPosition())
	found := contentsUpTo(last, obj.ResourceVersion)
	chain, err := r.walkBack(ctx, last, found.recovery.CheckpointPosition)
	if err != nil {
		return contents{}, err
	}
	if err := r.checkCheckpointOf(chain); err != nil {
		return contents{}, err
	}
	found.recovery.Records = recordsAfter(chain, found.recovery.CheckpointPosition)
	if last.header.Checkpoint != nil {
		found.recovery.Checkpoint, err = r.readCheckpoint(ctx, *last.header.Checkpoint)
	}
	return found, err
}

// contentsUpTo returns contents that are filled from the tail alone. The caller adds the records
// and the checkpoint.
func contentsUpTo(last history, version string) contents {
	return contents{last: last, version: version, recovery: Recovery{
		ID: last.header.Journal, CheckpointPosition: last.checkpointPosition(), Head: last.header.Head.Position,
	}}
}

func recordsAfter(chain []history, position uint64) []Record {
	var out []Record
	for _, s := range chain {
		for _, e := range s.entries {
			if e.kind == kindRecord && e.at.Position > position {
				out = append(out, Record{Position: e.at.Position, Data: e.payload})
			}
		}
	}
	return out
}

// checkHead returns the sealed segments. It returns an error if a segment or a checkpoint lies
// beyond the tail's head: the tail was then replaced by an earlier version of itself. It cannot
// detect an earlier version that was written after the last seal.
func (r reader) checkHead(ctx context.Context, head uint64) (sealed []stored, err error) {
	for _, part := range []string{PartCheckpoint, PartSegment} {
		sealed, err = r.listStored(ctx, part)
		if err != nil {
			return nil, err
		}
		for _, s := range sealed {
			if s.position > head {
				return nil, r.corruptError(r.name.tailName(), head+1, fmt.Sprintf("it ends before ConfigMap %q, so it is not the last version of the tail", s.name))
			}
		}
	}
	return sealed, nil
}

// prefetchSegments reads concurrently the segments after position that walkBack would read one
// after the other. If a read fails here, walkBack repeats it and reports the error.
func (r reader) prefetchSegments(ctx context.Context, sealed []stored, position uint64) {
	var names []string
	for _, s := range sealed {
		_, known := r.sealed[s.name]
		if _, fetched := r.fetched[s.name]; s.position > position && !known && !fetched {
			names = append(names, s.name)
		}
	}
	found, errs := r.getAll(ctx, names)
	for i, name := range names {
		if errs[i] == nil {
			r.fetched[name] = found[i]
		}
	}
}

// walkBack returns the segments with the records after position, oldest first. The newest is last.
func (r reader) walkBack(ctx context.Context, last history, position uint64) ([]history, error) {
	chain := []history{last}
	for at := last; at.header.Anchor.Position > position; {
		before, err := r.segmentBefore(ctx, at.segment)
		if err != nil {
			return nil, err
		}
		chain = append(chain, before)
		at = before
	}
	oldest := chain[len(chain)-1].header
	if oldest.Anchor.Position == 0 && oldest.Anchor != genesisOf(oldest.Journal) {
		return nil, r.corruptError(r.name.tailName(), 1, "the chain does not begin with this journal's ID")
	}
	slices.Reverse(chain)
	return chain, nil
}

// checkCheckpointOf returns an error unless the tail's header names the checkpoint of the last
// checkpoint record. The chain's hashes and the members' anchors cover the record but not the header,
// so without this check a replaced checkpoint would not be noticed if the records are unchanged.
// chain must contain every record after the checkpoint's position.
func (r reader) checkCheckpointOf(chain []history) error {
	var recorded *checkpointRef
	for _, s := range chain {
		for _, e := range s.entries {
			if e.kind != kindCheckpoint {
				continue
			}
			recorded = &checkpointRef{}
			if err := json.Unmarshal(e.payload, recorded); err != nil {
				return r.corruptError(r.name.tailName(), e.at.Position, "its checkpoint record is not readable: "+err.Error())
			}
		}
	}
	named := chain[len(chain)-1].header.Checkpoint
	if recorded == nil && named == nil || recorded != nil && named != nil && *recorded == *named {
		return nil
	}
	return r.corruptError(r.name.tailName(), chain[len(chain)-1].checkpointPosition(), "its header does not name the checkpoint of the last checkpoint record: the checkpoint was replaced")
}

// segmentBefore reads the segment to which the anchor of s refers.
func (r reader) segmentBefore(ctx context.Context, s segment) (history, error) {
	name := r.name.segmentName(s.header.Anchor)
	if known, ok := r.sealed[name]; ok {
		return known, nil
	}
	obj, fetched := r.fetched[name]
	if !fetched {
		var err error
		if obj, err = r.getObject(ctx, name); errors.Is(err, ErrNotFound) {
			return history{}, r.corruptError(name, s.header.Anchor.Position, "it is missing")
		} else if err != nil {
			return history{}, err
		}
	}
	found, err := r.decodeSegment(obj)
	if err != nil {
		return history{}, err
	}
	if found.header.Head != s.header.Anchor || found.header.Journal != s.header.Journal {
		return history{}, r.corruptError(name, found.header.Anchor.Position+1, "it is another segment than the one its successor is anchored at")
	}
	r.sealed[name] = found
	delete(r.fetched, name)
	return found, nil
}

func (r reader) readCheckpoint(ctx context.Context, ref checkpointRef) ([]byte, error) {
	if state, ok := r.states[ref.Hash]; ok {
		return state, nil
	}
	names := make([]string, ref.Chunks)
	for i := range names {
		names[i] = r.name.chunkName(ref, i)
	}
	found, errs := r.getAll(ctx, names)
	state := make([]byte, 0, ref.Bytes)
	for i, name := range names {
		if errors.Is(errs[i], ErrNotFound) {
			return nil, r.corruptError(name, ref.Position, "it is missing, and holds a part of the checkpoint")
		}
		if errs[i] != nil {
			return nil, errs[i]
		}
		state = append(state, found[i].Binary[keyChunk]...)
	}
	if sha256.Sum256(state) != ref.Hash {
		return nil, r.corruptError(r.name.chunkName(ref, 0), ref.Position,
			fmt.Sprintf("the %d chunks of this checkpoint do not match its hash", ref.Chunks))
	}
	r.states[ref.Hash] = state
	return state, nil
}

// atOnce is the number of concurrent reads.
const atOnce = 8

func (r reader) getAll(ctx context.Context, names []string) ([]Object, []error) {
	found, errs := make([]Object, len(names)), make([]error, len(names))
	var reading sync.WaitGroup
	for first := range min(atOnce, len(names)) {
		reading.Go(func() {
			for i := first; i < len(names); i += atOnce {
				found[i], errs[i] = r.getObject(ctx, names[i])
			}
		})
	}
	reading.Wait()
	return found, errs
}

func (r reader) getObject(ctx context.Context, name string) (obj Object, err error) {
	err = r.repeatUntilKnown(ctx, func(ctx context.Context) (err error) {
		obj, err = r.store.Get(ctx, name)
		return err
	})
	if err != nil {
		return Object{}, fmt.Errorf("read ConfigMap %q: %w", name, err)
	}
	return obj, nil
}

func (r reader) decodeSegment(obj Object) (history, error) {
	found, position, err := decodeHistory(obj)
	if err != nil {
		return history{}, r.corruptError(obj.Name, position, err.Error())
	}
	return found, nil
}

func (r reader) corruptError(object string, position uint64, reason string) *CorruptError {
	return &CorruptError{Journal: string(r.name), Object: object, Position: position, Reason: reason}
}
