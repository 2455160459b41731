package history

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Batch is a part of the history that is stored outside of the book.
type Batch struct {
	// Number counts the batches of a journal from 1.
	Number uint64
	// Before names the previous batch, nil for the first one.
	Before *Link
	// Rows are in the order in which the reservations were forgotten.
	Rows []Row
}

// Link names a stored batch.
type Link struct {
	Batch uint64 `json:"batch"`
	// Hash is the Hash of the encoded batch.
	Hash string `json:"hash"`
}

// Closed is the newest batch that is stored; zero if there is none.
type Closed struct {
	Link
	// KeptFrom is the number of the oldest batch that the broker keeps. It may have deleted older
	// ones.
	KeptFrom uint64 `json:"keptFrom,omitempty"`
}

// Name returns the name of the batch with the given number. Names sort like the numbers.
func Name(number uint64) string { return fmt.Sprintf("%010d", number) }

type header struct {
	Batch  uint64 `json:"batch"`
	Before *Link  `json:"before,omitempty"`
}

// Encode returns the batch as lines of JSON: first a header, then one line for each row. Equal
// batches have equal encodings.
func (b *Batch) Encode() ([]byte, error) {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	if err := to.Encode(header{b.Number, b.Before}); err != nil {
		return nil, fmt.Errorf("encoding batch %d: %w", b.Number, err)
	}
	for i := range b.Rows {
		if err := to.Encode(&b.Rows[i]); err != nil {
			return nil, fmt.Errorf("encoding batch %d: %w", b.Number, err)
		}
	}
	return out.Bytes(), nil
}

// Decode returns the batch in text, which Encode has written.
func Decode(text []byte) (*Batch, error) {
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	var head header
	if err := from.Decode(&head); err != nil {
		return nil, fmt.Errorf("decoding a batch: %w", err)
	}
	b := &Batch{Number: head.Batch, Before: head.Before}
	for from.More() {
		var row Row
		if err := from.Decode(&row); err != nil {
			return nil, fmt.Errorf("decoding row %d of batch %d: %w", len(b.Rows)+1, b.Number, err)
		}
		b.Rows = append(b.Rows, row)
	}
	return b, nil
}

// Hash returns the SHA-256 hash of an encoded batch, in hexadecimal.
func Hash(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
