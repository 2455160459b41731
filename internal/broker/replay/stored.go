package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// LabelHistory is the label of the ConfigMaps that store batches of ended reservations.
const LabelHistory = "broker.fluidos.eu/history"

// LabelAccounts is the label of the ConfigMaps that store ended periods. Its value is the span of
// the period: hour, day or month.
const LabelAccounts = "broker.fluidos.eu/accounts"

const (
	// keyRows is the key of the compressed rows in an object. keyHash is the key of the hash of the
	// rows before compression.
	keyRows, keyHash = "rows", "hash"
	// maxPart is the maximum size of the compressed rows in one object, in bytes.
	maxPart = 512 << 10
)

// PeriodLabels returns the labels of the stored periods of a span.
func PeriodLabels(span accounts.Span) map[string]string {
	return map[string]string{journal.LabelManagedBy: journal.ManagedBy, LabelAccounts: string(span)}
}

// PeriodObject returns the name of the object with the given part of a period. Parts are counted
// from 0. book is the name of the journal.
func PeriodObject(book, period string, part int) string {
	return fmt.Sprintf("%s-accounts-%s-%d", book, period, part)
}

// PackPeriod returns the objects that store a period whose encoding is text. Equal periods result in
// equal objects.
func PackPeriod(book string, p *accounts.Period, text []byte) ([]journal.Object, error) {
	return packRows("the period "+p.Name(), PeriodLabels(p.Span), func(part int) string { return PeriodObject(book, p.Name(), part) }, text)
}

// packRows returns the objects that store rows. Each contains at most maxPart bytes of compressed rows.
// nameOf returns the name of the object with a part, and what describes the rows in errors.
func packRows(what string, labels map[string]string, nameOf func(part int) string, text []byte) ([]journal.Object, error) {
	packed, err := compressRows(text)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", what, err)
	}
	var out []journal.Object
	for part := range slices.Chunk(packed, maxPart) {
		out = append(out, journal.Object{
			Name: nameOf(len(out)), Immutable: true, Labels: labels,
			Binary: map[string][]byte{keyRows: part}, Data: map[string]string{keyHash: accounts.Hash(text)},
		})
	}
	return out, nil
}

// IsSamePart reports whether two objects have the same content.
func IsSamePart(a, b journal.Object) bool {
	return maps.EqualFunc(a.Binary, b.Binary, bytes.Equal) && maps.Equal(a.Data, b.Data)
}

// compressRows compresses rows. Equal rows result in equal bytes.
func compressRows(text []byte) ([]byte, error) {
	var out bytes.Buffer
	to := gzip.NewWriter(&out)
	if _, err := to.Write(text); err != nil {
		return nil, err
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// errDamaged is wrapped by errors about rows that were edited.
var errDamaged = errors.New("it was edited")

// ReadPeriod reads a stored period. It returns an error if the rows do not match their hash, and
// an error that wraps journal.ErrNotFound if there is no such period.
func ReadPeriod(ctx context.Context, store journal.Store, book, name string) (*accounts.Period, error) {
	p, _, err := readStored(ctx, store, book, name)
	return p, err
}

func readStored(ctx context.Context, store journal.Store, book, name string) (*accounts.Period, string, error) {
	text, hash, err := readRows(ctx, store, "the period "+name, func(part int) string { return PeriodObject(book, name, part) })
	if err != nil {
		return nil, "", err
	}
	p, err := accounts.Decode(text)
	if err != nil {
		return nil, "", fmt.Errorf("the rows of the period %s are no rows, %w: %w", name, errDamaged, err)
	}
	if p.Name() != name {
		return nil, "", fmt.Errorf("the object of the period %s has the rows of %s: %w", name, p.Name(), errDamaged)
	}
	return p, hash, nil
}

// readRows reads rows that packRows has packed, and returns them with their hash. The error wraps
// journal.ErrNotFound if they are not stored, and errDamaged if they do not match their hash.
func readRows(ctx context.Context, store journal.Store, what string, nameOf func(part int) string) (text []byte, hash string, err error) {
	var packed []byte
	want := ""
	for i := 0; len(packed) == i*maxPart; i++ { // the last part is the first that is not full
		obj, err := store.Get(ctx, nameOf(i))
		if errors.Is(err, journal.ErrNotFound) && i > 0 {
			break
		}
		if err != nil {
			return nil, "", fmt.Errorf("reading %s: %w", what, err)
		}
		packed, want = append(packed, obj.Binary[keyRows]...), obj.Data[keyHash]
	}
	if text, err = unpackRows(packed); err != nil {
		return nil, "", fmt.Errorf("the rows of %s cannot be unpacked, %w: %w", what, errDamaged, err)
	}
	if hash = accounts.Hash(text); hash != want {
		return nil, "", fmt.Errorf("the rows of %s have hash %s, and %s is named: %w", what, hash, want, errDamaged)
	}
	return text, hash, nil
}

func unpackRows(packed []byte) ([]byte, error) {
	from, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(from)
}

// HistoryLabels returns the labels of the stored batches of ended reservations.
func HistoryLabels() map[string]string {
	return map[string]string{journal.LabelManagedBy: journal.ManagedBy, LabelHistory: "ended"}
}

// batchPrefix is what the names of all stored batches of a journal begin with. It contains the ID of
// the journal, because a new journal counts its batches from 1 again.
func batchPrefix(book, journalID string) string { return book + "-history-" + journalID + "-" }

// BatchObject returns the name of the object with the given part of a batch. Parts are counted from
// 0. book is the name of the journal, and journalID its ID.
func BatchObject(book, journalID string, number uint64, part int) string {
	return fmt.Sprintf("%s%s-%d", batchPrefix(book, journalID), history.Name(number), part)
}

// PackBatch returns the objects that store a batch of the history whose encoding is text. Equal
// batches result in equal objects.
func PackBatch(book, journalID string, number uint64, text []byte) ([]journal.Object, error) {
	return packRows(describeBatch(number), HistoryLabels(), func(part int) string { return BatchObject(book, journalID, number, part) }, text)
}

func describeBatch(number uint64) string { return fmt.Sprintf("batch %d of the history", number) }

func readBatch(ctx context.Context, store journal.Store, book, journalID string, number uint64) (*history.Batch, string, error) {
	what := describeBatch(number)
	text, hash, err := readRows(ctx, store, what, func(part int) string { return BatchObject(book, journalID, number, part) })
	if err != nil {
		return nil, "", err
	}
	b, err := history.Decode(text)
	if err != nil {
		return nil, "", fmt.Errorf("the rows of %s are no rows, %w: %w", what, errDamaged, err)
	}
	if b.Number != number {
		return nil, "", fmt.Errorf("the object of %s has the rows of batch %d: %w", what, b.Number, errDamaged)
	}
	return b, hash, nil
}

// storedBatches returns the names of the first parts of all stored batches, also those of other journals,
// sorted by name: the batches of each journal are together, oldest first.
func storedBatches(ctx context.Context, store journal.Store) ([]string, error) {
	objects, err := store.List(ctx, HistoryLabels())
	if err != nil {
		return nil, fmt.Errorf("listing stored batches of the history: %w", err)
	}
	var out []string
	for _, obj := range objects {
		if strings.HasSuffix(obj.Name, "-0") {
			out = append(out, obj.Name)
		}
	}
	return out, nil
}

// storedPeriods returns the names of the stored periods of a span, oldest first.
func storedPeriods(ctx context.Context, store journal.Store, book string, span accounts.Span) ([]string, error) {
	objects, err := store.List(ctx, PeriodLabels(span))
	if err != nil {
		return nil, fmt.Errorf("listing stored periods: %w", err)
	}
	var out []string
	for _, obj := range objects {
		if name, first := strings.CutPrefix(strings.TrimSuffix(obj.Name, "-0"), book+"-accounts-"); first && strings.HasSuffix(obj.Name, "-0") {
			out = append(out, name)
		}
	}
	return out, nil
}
