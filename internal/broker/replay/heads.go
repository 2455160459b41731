package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// LabelHead is the label of the ConfigMaps that store signed heads of a journal. Its value is the name of
// the journal.
const LabelHead = "broker.fluidos.eu/signed-head"

const keyHead = "head"

func headLabels(book string) map[string]string {
	return map[string]string{journal.LabelManagedBy: journal.ManagedBy, LabelHead: book}
}

// PackHead returns the object that stores a signed head of a journal.
func PackHead(book string, position uint64, signed *brokerv1alpha1.Receipt) (journal.Object, error) {
	text, err := json.Marshal(signed)
	if err != nil {
		return journal.Object{}, fmt.Errorf("encoding the signed head at position %d: %w", position, err)
	}
	return journal.Object{
		Name: fmt.Sprintf("%s-head-%016d", book, position), Immutable: true, Labels: headLabels(book),
		Data: map[string]string{keyHead: string(text)},
	}, nil
}

type storedHead struct {
	object string
	at     time.Time
	signed brokerv1alpha1.Receipt
}

// storedHeads returns the stored heads of a journal in the order of their positions. at is zero for one that cannot
// be read.
func storedHeads(ctx context.Context, store journal.Store, book string) ([]storedHead, error) {
	objects, err := store.List(ctx, headLabels(book))
	if err != nil {
		return nil, fmt.Errorf("listing signed heads of the journal: %w", err)
	}
	var out []storedHead
	for _, listed := range objects { // List returns objects in order of their names, without their data
		obj, err := store.Get(ctx, listed.Name)
		if errors.Is(err, journal.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("reading a signed head of the journal: %w", err)
		}
		h := storedHead{object: obj.Name}
		if json.Unmarshal([]byte(obj.Data[keyHead]), &h.signed) == nil {
			if read, err := receipt.ReadHead(&h.signed); err == nil {
				h.at = read.SignedAt
			}
		}
		out = append(out, h)
	}
	return out, nil
}

// ReadHeads returns the signed heads of a journal that are stored, in the order of their positions. It leaves out
// heads that cannot be read.
func ReadHeads(ctx context.Context, store journal.Store, book string) ([]brokerv1alpha1.Receipt, error) {
	stored, err := storedHeads(ctx, store, book)
	if err != nil {
		return nil, err
	}
	var out []brokerv1alpha1.Receipt
	for i := range stored {
		if !stored[i].at.IsZero() {
			out = append(out, stored[i].signed)
		}
	}
	return out, nil
}

// DropHeads deletes stored heads of a journal. It keeps the newest one, which has the highest position: a clock
// may have been ahead. It divides time into parts of the length retention/count, and keeps the last head in each
// part. It keeps no head that is older than the newest one by more than retention.
func DropHeads(ctx context.Context, store journal.Store, book string, retention time.Duration, count int) error {
	stored, err := storedHeads(ctx, store, book)
	if err != nil || len(stored) == 0 {
		return err
	}
	part := max(retention/time.Duration(count), time.Second)
	newest := stored[len(stored)-1].at
	for i, h := range stored[:len(stored)-1] {
		isLast := h.at.Truncate(part) != stored[i+1].at.Truncate(part)
		if isLast && newest.Sub(h.at) <= retention {
			continue
		}
		if err := store.Delete(ctx, h.object); err != nil && !errors.Is(err, journal.ErrNotFound) {
			return fmt.Errorf("deleting a signed head of the journal: %w", err)
		}
	}
	return nil
}
