package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// format is the version of the stored layout.
const format = 1

// Keys of a segment's data.
const (
	keyHeader   = "header"
	keyRecords  = "records"
	keyChecksum = "checksum"
)

// header says where a segment stands. In the tail it is the root from which
// everything else is found and proved.
type header struct {
	// Format is the version of the layout.
	Format int `json:"format"`
	// Journal is the random ID of the journal.
	Journal string `json:"journal"`
	// Writer is the random ID of the writer that wrote this version.
	Writer string `json:"writer"`
	// Anchor is the last place of the segment before, and names it.
	Anchor link `json:"anchor"`
	// Head is the last place of this segment.
	Head link `json:"head"`
	// Trimmed is the last position whose segment may be gone: everything behind it
	// must be there.
	Trimmed uint64 `json:"trimmed"`
	// Checkpoint is the newest valid one.
	Checkpoint *checkpointRef `json:"checkpoint,omitempty"`
}

// segment is a run of records.
type segment struct {
	header  header
	records string
}

// checkpointPosition is the last position that the checkpoint stands for.
func (s segment) checkpointPosition() uint64 {
	if s.header.Checkpoint == nil {
		return 0
	}
	return s.header.Checkpoint.Position
}

// with is the segment after a batch of a writer.
func (s segment) with(b *batch, writer string) segment {
	s.header.Writer = writer
	s.header.Head = b.head
	if b.checkpoint != nil {
		s.header.Checkpoint = b.checkpoint
		s.header.Trimmed = b.trimmed
	}
	s.records += string(b.lines)
	return s
}

// successor is the empty segment that follows.
func (s segment) successor() segment {
	s.header.Anchor = s.header.Head
	s.records = ""
	return s
}

// data is the segment as it is stored. The checksum covers the header; the header's
// head covers the records.
func (s segment) data() (map[string]string, error) {
	text, err := json.Marshal(s.header)
	if err != nil {
		return nil, fmt.Errorf("encode segment header: %w", err)
	}
	return map[string]string{keyHeader: string(text), keyRecords: s.records, keyChecksum: checksum(text)}, nil
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// decode reads a segment and verifies every byte of it. The position of the first
// record in doubt comes with an error.
func decode(obj Object) (segment, []entry, uint64, error) {
	var s segment
	if len(obj.Data) != 3 || len(obj.Binary) != 0 {
		return s, nil, 0, fmt.Errorf("holds other keys than %s, %s and %s", keyHeader, keyRecords, keyChecksum)
	}
	text := []byte(obj.Data[keyHeader])
	if got, want := obj.Data[keyChecksum], checksum(text); got != want {
		return s, nil, 0, fmt.Errorf("header does not match its checksum %.80q", got)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s.header); err != nil {
		return s, nil, 0, fmt.Errorf("header: %w", err)
	}
	if s.header.Format != format {
		return s, nil, 0, fmt.Errorf("has format %d, this version reads format %d", s.header.Format, format)
	}
	s.records = obj.Data[keyRecords]
	entries, at, err := readLines(s.records, s.header.Anchor)
	if err != nil {
		return s, nil, at.Position + 1, err
	}
	if at != s.header.Head {
		return s, nil, min(at.Position, s.header.Head.Position) + 1,
			fmt.Errorf("records end at position %d, header says %d", at.Position, s.header.Head.Position)
	}
	return s, entries, 0, nil
}

// readLines reads records from anchor on, and returns the last good place.
func readLines(lines string, anchor link) ([]entry, link, error) {
	at := anchor
	entries := make([]entry, 0, strings.Count(lines, "\n"))
	for len(lines) > 0 {
		line, rest, whole := strings.Cut(lines, "\n")
		if !whole {
			return nil, at, fmt.Errorf("last record line is cut off: %.80q", line)
		}
		e, err := readLine(line, at)
		if err != nil {
			return nil, at, err
		}
		entries = append(entries, e)
		at, lines = e.at, rest
	}
	return entries, at, nil
}
