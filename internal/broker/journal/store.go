package journal

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Labels of every stored object.
const (
	// LabelManagedBy is the label whose value is always ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "liqo-resource-broker"
	// LabelJournal is the label whose value is the name of the journal.
	LabelJournal = "broker.fluidos.eu/journal"
	// LabelPart is the label that says what the object stores: PartTail, PartSegment or
	// PartCheckpoint.
	LabelPart      = "broker.fluidos.eu/journal-part"
	PartTail       = "tail"
	PartSegment    = "segment"
	PartCheckpoint = "checkpoint"
)

// Object is the part of a ConfigMap that the journal uses.
type Object struct {
	Name   string
	Labels map[string]string
	Data   map[string]string
	Binary map[string][]byte
	// Immutable objects can be deleted but not updated.
	Immutable bool
	// ResourceVersion is set by the store. Update needs the newest one.
	ResourceVersion string
	// Created is set by the store, by its own clock.
	Created time.Time
}

// Store keeps objects. Get and List see every write that was answered before the call.
//
// A method whose error wraps ErrNotFound, ErrExists, ErrConflict or ErrUnavailable has changed
// nothing and never will. After any other error a write may have happened, or may still happen
// later.
type Store interface {
	Get(ctx context.Context, name string) (Object, error)
	// Create stores a new object, or returns ErrExists.
	Create(ctx context.Context, obj Object) (Object, error)
	// Update replaces the object if its resourceVersion is still the given one; else it returns
	// ErrConflict.
	Update(ctx context.Context, obj Object) (Object, error)
	// Touch changes the object's resourceVersion unconditionally, and leaves its content alone.
	// No two touches of an object may have the same mark.
	Touch(ctx context.Context, name, mark string) error
	Delete(ctx context.Context, name string) error
	// List returns, in order of name and without Data and Binary, the objects that
	// carry all of the labels.
	List(ctx context.Context, labels map[string]string) ([]Object, error)
}

// names is the name of a journal, with which the names of its objects begin. Its methods make and
// parse these names.
type names string

func (n names) tailName() string { return string(n) + "-journal-tail" }

// segmentName names a sealed segment after its last place, so that segments with the same name
// have the same content.
func (n names) segmentName(head link) string {
	return fmt.Sprintf("%s-journal-%016d-%s", n, head.Position, head.Hash.shortText())
}

func (n names) chunkName(ref checkpointRef, i int) string {
	return fmt.Sprintf("%s-checkpoint-%016d-%s-%04d", n, ref.Position, ref.Hash.shortText(), i)
}

func (n names) positionIn(part, name string) (uint64, bool) {
	prefix := string(n) + "-journal-"
	if part == PartCheckpoint {
		prefix = string(n) + "-checkpoint-"
	}
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(rest, "-")
	position, err := strconv.ParseUint(digits, 10, 64)
	return position, err == nil
}

func (n names) labelsOf(part string) map[string]string {
	return map[string]string{LabelManagedBy: ManagedBy, LabelJournal: string(n), LabelPart: part}
}
