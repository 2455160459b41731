package accounts

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Span is the length of a period.
type Span string

// Spans. Days and months begin and end in UTC.
const (
	Hour  Span = "hour"
	Day   Span = "day"
	Month Span = "month"
)

// Spans lists all spans, the shortest first.
var Spans = []Span{Hour, Day, Month}

// StartOf returns the start of the hour, day or month that contains an instant.
func (s Span) StartOf(at time.Time) time.Time {
	at = at.UTC()
	switch s {
	case Month:
		return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	case Day:
		return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
	}
	return at.Truncate(time.Hour)
}

// After returns the end of the hour, day or month that begins at start.
func (s Span) After(start time.Time) time.Time {
	switch s {
	case Month:
		return start.AddDate(0, 1, 0)
	case Day:
		return start.AddDate(0, 0, 1)
	}
	return start.Add(time.Hour)
}

// Period holds the rows of one hour, day or month.
type Period struct {
	Part
	// Before is the period of the same span that was closed before this one, nil if there was none.
	// It is nil until the period is closed.
	Before *Link `json:"before,omitempty"`
	// Rows are sorted by key and resource. In a period that has not ended, they contain the sums up
	// to the latest event.
	Rows []Row `json:"rows"`
}

// Encode returns the period as lines of JSON: first a header, then one line for each row. Equal
// periods have equal encodings.
func (p *Period) Encode() ([]byte, error) {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	if err := to.Encode(header{p.Part, p.Before}); err != nil {
		return nil, fmt.Errorf("encoding the period %s: %w", p.Name(), err)
	}
	for i := range p.Rows {
		if err := to.Encode(&p.Rows[i]); err != nil {
			return nil, fmt.Errorf("encoding the period %s: %w", p.Name(), err)
		}
	}
	return out.Bytes(), nil
}

type header struct {
	Part
	Before *Link `json:"before,omitempty"`
}

// Link names a closed period. Since each closed period has a Link to the one before, the newest Link
// of a span proves all periods of that span.
type Link struct {
	Period string `json:"period"`
	// Hash is the Hash of the encoded period.
	Hash string `json:"hash"`
}

// Closed is the newest closed period of a span; zero if there is none.
type Closed struct {
	Link
	// KeptFrom is the name of the oldest period of this span that the broker keeps. The broker may
	// have deleted older ones.
	KeptFrom string `json:"keptFrom,omitempty"`
}

// Decode returns the period in text, which Encode has written.
func Decode(text []byte) (*Period, error) {
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	var head header
	if err := from.Decode(&head); err != nil {
		return nil, fmt.Errorf("decoding a period: %w", err)
	}
	p := &Period{Part: head.Part, Before: head.Before}
	for from.More() {
		var row Row
		if err := from.Decode(&row); err != nil {
			return nil, fmt.Errorf("decoding row %d of the period %s: %w", len(p.Rows)+1, p.Name(), err)
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// Hash returns the SHA-256 hash of an encoded period, in hexadecimal.
func Hash(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
