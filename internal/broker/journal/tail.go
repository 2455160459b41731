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

type tail struct {
	segment
	version string
}

// writer makes calls to a store, and repeats them until their outcome is known.
type writer struct {
	// id is random, so that no two writers ever store the same tail.
	id    string
	store Store
	name  names
	opts  Options
}

func newWriter(store Store, name string, opts Options) (writer, error) {
	if err := opts.checkOptions(name); err != nil {
		return writer{}, err
	}
	return writer{id: randomID(), store: store, name: names(name), opts: opts.withDefaults()}, nil
}

// randomID returns 130 random bits in lower-case letters and digits.
func randomID() string { return strings.ToLower(rand.Text()) }

// extendWith stores the tail with one more batch. A full tail is sealed first.
func (t tail) extendWith(ctx context.Context, w writer, b *batch) (tail, error) {
	next := t.segment
	if next.isFull(w.opts.SegmentBytes) {
		if err := w.sealSegment(ctx, next); err != nil {
			return tail{}, fmt.Errorf("seal the tail at position %d: %w", next.header.Head.Position, err)
		}
		failpoint.Hit(failpoint.JournalSealed)
		next = next.successor()
	}
	next, err := next.withBatch(b, w.id)
	if err != nil {
		return tail{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	version, err := w.swapTail(ctx, t.version, next.content)
	return tail{segment: next, version: version}, err
}

// sealSegment stores a copy of a tail under the name to which its successor refers. It copies
// the stored bytes, so that copies by two writers are the same.
func (w writer) sealSegment(ctx context.Context, s segment) error {
	err := w.putObject(ctx, Object{
		Name:      w.name.segmentName(s.header.Head),
		Labels:    w.name.labelsOf(PartSegment),
		Data:      s.text,
		Binary:    s.binary,
		Immutable: true,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// putObject creates an object whose name determines its content. So it can repeat an attempt
// with an unknown outcome.
func (w writer) putObject(ctx context.Context, obj Object) error {
	return w.repeatUntilKnown(ctx, func(ctx context.Context) error {
		_, err := w.store.Create(ctx, obj)
		if errors.Is(err, ErrExists) {
			return w.checkSame(ctx, obj)
		}
		return err
	})
}

func (w writer) checkSame(ctx context.Context, obj Object) error {
	stored, err := w.store.Get(ctx, obj.Name)
	if err != nil {
		return err
	}
	if !stored.hasContentOf(obj) {
		return fmt.Errorf("ConfigMap %q: %w with other content, delete it", obj.Name, ErrExists)
	}
	return nil
}

func (o Object) hasContentOf(other Object) bool {
	return maps.Equal(o.Data, other.Data) && maps.EqualFunc(o.Binary, other.Binary, bytes.Equal)
}

func (w writer) repeatUntilKnown(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.OutcomeTimeout)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := w.callOnce(ctx, call)
		if err == nil || isRefusal(err) {
			return err
		}
		if !sleepFor(ctx, pause) {
			return fmt.Errorf("%w after %s: %w", ErrUnknown, w.opts.OutcomeTimeout, err)
		}
	}
}

// swapTail replaces the tail that was stored under version. If an attempt gets no answer, swapTail
// repeats it to learn its outcome. Either the repetition is stored, or it is refused because
// version is gone. If it is refused, no earlier attempt can be stored later, and the stored tail
// shows whether an attempt of this writer replaced the old one.
func (w writer) swapTail(ctx context.Context, version string, next content) (string, error) {
	obj := Object{Name: w.name.tailName(), Labels: w.name.labelsOf(PartTail), Data: next.text, Binary: next.binary, ResourceVersion: version}
	ctx, cancel := context.WithTimeout(ctx, w.opts.OutcomeTimeout)
	defer cancel()
	inDoubt := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := w.callOnce(ctx, func(ctx context.Context) error {
			stored, err := w.store.Update(ctx, obj)
			version = stored.ResourceVersion
			return err
		})
		switch {
		case err == nil:
			return version, nil
		case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound):
			return w.confirmSwap(ctx, obj)
		case !isRefusal(err):
			inDoubt = true
		case !inDoubt:
			return "", err
		}
		if !sleepFor(ctx, pause) {
			return "", fmt.Errorf("%w after %s: %w", ErrUnknown, w.opts.OutcomeTimeout, err)
		}
	}
}

func (w writer) confirmSwap(ctx context.Context, mine Object) (string, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var stored Object
		err := w.callOnce(ctx, func(ctx context.Context) (err error) {
			stored, err = w.store.Get(ctx, mine.Name)
			return err
		})
		switch {
		case err == nil && stored.hasContentOf(mine):
			return stored.ResourceVersion, nil
		case err == nil:
			return "", fmt.Errorf("%w: ConfigMap %q has changed since resourceVersion %s", ErrFenced, mine.Name, mine.ResourceVersion)
		case errors.Is(err, ErrNotFound):
			return "", fmt.Errorf("%w: ConfigMap %q was deleted", ErrFenced, mine.Name)
		}
		if !sleepFor(ctx, pause) {
			return "", fmt.Errorf("%w after %s: %w", ErrUnknown, w.opts.OutcomeTimeout, err)
		}
	}
}

func (w writer) callOnce(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.opts.AttemptTimeout)
	defer cancel()
	return call(ctx)
}

func sleepFor(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
