package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// Pauses between two attempts of a call whose outcome is unknown.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// tail is a tail segment and the resourceVersion under which it was stored.
type tail struct {
	segment
	version string
}

// writer makes calls until their outcome is known.
type writer struct {
	// id is random, so that no two writers ever store the same tail.
	id    string
	store Store
	name  names
	opts  Options
}

func newWriter(store Store, name string, opts Options) (writer, error) {
	if err := opts.validate(name); err != nil {
		return writer{}, err
	}
	return writer{id: randomID(), store: store, name: names(name), opts: opts.withDefaults()}, nil
}

// randomID has 130 bits, in characters that suit any place.
func randomID() string { return strings.ToLower(rand.Text()) }

// extend stores the tail with one more batch. A full tail is sealed first.
func (t tail) extend(ctx context.Context, w writer, b *batch) (tail, error) {
	next := t.segment
	if next.full(w.opts.SegmentBytes) {
		if err := w.seal(ctx, next); err != nil {
			return tail{}, fmt.Errorf("seal the tail at position %d: %w", next.header.Head.Position, err)
		}
		failpoint.Hit(failpoint.JournalSealed)
		next = next.successor()
	}
	next, err := next.with(b, w.id)
	if err != nil {
		return tail{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	version, err := w.swap(ctx, t.version, next.content)
	return tail{segment: next, version: version}, err
}

// seal stores a copy of a tail under the name that its successor refers to. It is copied
// as it is stored, whoever wrote it: two copies have to be the same.
func (w writer) seal(ctx context.Context, s segment) error {
	err := w.put(ctx, Object{
		Name:      w.name.segment(s.header.Head),
		Labels:    w.name.labels(PartSegment),
		Data:      s.text,
		Binary:    s.binary,
		Immutable: true,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// put creates an object whose name stands for its content. Repeating it does no harm,
// so an attempt with an unknown outcome is just made again.
func (w writer) put(ctx context.Context, obj Object) error {
	return w.insist(ctx, func(ctx context.Context) error {
		_, err := w.store.Create(ctx, obj)
		if errors.Is(err, ErrExists) {
			return w.same(ctx, obj)
		}
		return err
	})
}

// same makes sure that what has an object's name has its content.
func (w writer) same(ctx context.Context, obj Object) error {
	stored, err := w.store.Get(ctx, obj.Name)
	if err != nil {
		return err
	}
	if !stored.holds(obj) {
		return fmt.Errorf("ConfigMap %q: %w with other content, delete it", obj.Name, ErrExists)
	}
	return nil
}

// holds tells whether an object has the content of another.
func (o Object) holds(other Object) bool {
	return maps.Equal(o.Data, other.Data) && maps.EqualFunc(o.Binary, other.Binary, bytes.Equal)
}

// insist repeats a harmless call until its outcome is known or SettleTimeout is over.
func (w writer) insist(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.SettleTimeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := w.attempt(ctx, call)
		if err == nil || isRefusal(err) {
			return err
		}
		if !sleep(ctx, pause) {
			return fmt.Errorf("%w after %s: %w", ErrUnknown, w.opts.SettleTimeout, err)
		}
	}
}

// swap replaces the tail that was stored under version. Whether an attempt without
// an answer was carried out is settled by repeating it: either the repetition is
// stored, or it is refused because version is gone, and then nothing of ours can be
// stored any more and the tail shows whether it was ours that replaced it.
func (w writer) swap(ctx context.Context, version string, next content) (string, error) {
	obj := Object{Name: w.name.tail(), Labels: w.name.labels(PartTail), Data: next.text, Binary: next.binary, ResourceVersion: version}
	ctx, cancel := context.WithTimeout(ctx, w.opts.SettleTimeout)
	defer cancel()
	inDoubt := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := w.attempt(ctx, func(ctx context.Context) error {
			stored, err := w.store.Update(ctx, obj)
			version = stored.ResourceVersion
			return err
		})
		switch {
		case err == nil:
			return version, nil
		case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound):
			return w.confirm(ctx, obj)
		case !isRefusal(err):
			inDoubt = true
		case !inDoubt:
			return "", err
		}
		if !sleep(ctx, pause) {
			return "", fmt.Errorf("%w after %s: %w", ErrUnknown, w.opts.SettleTimeout, err)
		}
	}
}

// confirm tells, after a refusal, whether it was the writer's own earlier attempt that
// replaced the tail.
func (w writer) confirm(ctx context.Context, mine Object) (string, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var stored Object
		err := w.attempt(ctx, func(ctx context.Context) (err error) {
			stored, err = w.store.Get(ctx, mine.Name)
			return err
		})
		switch {
		case err == nil && stored.holds(mine):
			return stored.ResourceVersion, nil
		case err == nil:
			return "", fmt.Errorf("%w: ConfigMap %q has changed since resourceVersion %s", ErrFenced, mine.Name, mine.ResourceVersion)
		case errors.Is(err, ErrNotFound):
			return "", fmt.Errorf("%w: ConfigMap %q was deleted", ErrFenced, mine.Name)
		}
		if !sleep(ctx, pause) {
			return "", fmt.Errorf("%w after %s: %w", ErrUnknown, w.opts.SettleTimeout, err)
		}
	}
}

func (w writer) attempt(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.AttemptTimeout)
	defer cancel()
	return call(ctx)
}

// sleep waits, and returns false if ctx ends first.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
