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

// Keys of a segment's data. Packed records are binary, all other values are text.
const (
	keyHeader   = "header"
	keyRecords  = "records"
	keyChecksum = "checksum"
)

// maxUnpacked bounds the size of unpacked records, as a multiple of the limit of a packed
// segment. Without it, records that compress unusually well would make a tail that takes long
// to read.
const maxUnpacked = 16

// maxBatches is the number of updates after which a tail is sealed, however small it is. Every
// update writes the whole tail, so with small batches most of what is written was stored before. A
// seal costs two updates. With a seal every 32 updates, an update writes half as much and takes a
// fifth less time than with tails of 8 KiB.
const maxBatches = 32

// header describes a segment and its place in the chain. The tail's header is the root from which
// all other objects are found and verified.
type header struct {
	// Format is the version of the layout.
	Format int `json:"format"`
	// Journal is the random ID of the journal.
	Journal string `json:"journal"`
	// Writer is the random ID of the writer that wrote this version.
	Writer string `json:"writer"`
	// Anchor is the place of the previous segment's last record. The name of
	// the previous segment is derived from this place.
	Anchor link `json:"anchor"`
	// Head is the place of this segment's last record.
	Head link `json:"head"`
	// Trimmed is the position up to which segments may have been deleted. Every later segment must
	// exist.
	Trimmed uint64 `json:"trimmed"`
	// Checkpoint is the newest valid checkpoint.
	Checkpoint *checkpointRef `json:"checkpoint,omitempty"`
}

// content is a segment in its stored form.
type content struct {
	text   map[string]string
	binary map[string][]byte
}

func (c content) size() int { return len(c.binary[keyRecords]) }

// segment is one object of the journal with consecutive records: the tail, or a sealed segment.
type segment struct {
	header header
	content
	// records is the gzip file that the next batch continues; nil for a sealed segment.
	records *pack
}

func (s segment) checkpointPosition() uint64 {
	if s.header.Checkpoint == nil {
		return 0
	}
	return s.header.Checkpoint.Position
}

func newSegment(id string) (segment, error) {
	s := segment{header: header{Journal: id, Anchor: genesisOf(id)}, records: newPack()}
	return s.withBatch(&batch{head: genesisOf(id)}, "")
}

// withBatch returns the segment extended by a batch of a writer. The result takes over the
// records of s, so s itself must not be extended again.
func (s segment) withBatch(b *batch, writer string) (segment, error) {
	s.header.Format = format
	s.header.Writer = writer
	s.header.Head = b.head
	if b.checkpoint != nil {
		s.header.Checkpoint = b.checkpoint
		s.header.Trimmed = b.trimmed
	}
	text, err := json.Marshal(s.header)
	if err != nil {
		return segment{}, fmt.Errorf("encode segment header: %w", err)
	}
	packed := s.records.addLines(b.lines)
	s.content = content{
		text:   map[string]string{keyHeader: string(text), keyChecksum: checksumOf(text, packed)},
		binary: map[string][]byte{keyRecords: packed},
	}
	return s, nil
}

func (s segment) isFull(limit int) bool {
	return s.size() >= limit || s.records.lines >= maxUnpacked*limit || s.records.batches >= maxBatches
}

// successor returns an empty segment that follows this one.
func (s segment) successor() segment {
	s.header.Anchor = s.header.Head
	s.records.resetFile()
	return s
}

// checksumOf returns a checksum of the header and the packed records. The head in the header
// covers the content of the records.
func checksumOf(text, packed []byte) string {
	h := sha256.New()
	h.Write(text)
	h.Write(packed)
	return hex.EncodeToString(h.Sum(nil))
}

// history is a verified segment with its records unpacked.
type history struct {
	segment
	lines   string
	entries []entry
}

// asContinued returns the segment ready for more batches.
func (h history) asContinued() segment {
	s := h.segment
	s.records = newPack()
	s.records.addLines([]byte(h.lines))
	return s
}

// decodeHistory reads a segment and verifies every byte of it. With an error it returns the
// position of the first record that is in doubt.
func decodeHistory(obj Object) (history, uint64, error) {
	h := history{segment: segment{content: content{obj.Data, obj.Binary}}}
	packed, ok := obj.Binary[keyRecords]
	if !ok || len(obj.Data) != 2 || len(obj.Binary) != 1 {
		return h, 0, fmt.Errorf("holds other keys than %s, %s and %s", keyHeader, keyRecords, keyChecksum)
	}
	text := []byte(obj.Data[keyHeader])
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&h.header); err != nil {
		return h, 0, fmt.Errorf("header: %w", err)
	}
	if h.header.Format != format {
		return h, 0, fmt.Errorf("has format %d, this version reads format %d", h.header.Format, format)
	}
	var err error
	if h.lines, err = unpackLines(packed); err != nil {
		return h, h.header.Anchor.Position + 1, err
	}
	var at link
	if h.entries, at, err = readLines(h.lines, h.header.Anchor); err != nil {
		return h, at.Position + 1, err
	}
	if at != h.header.Head {
		return h, min(at.Position, h.header.Head.Position) + 1,
			fmt.Errorf("records end at position %d, header says %d", at.Position, h.header.Head.Position)
	}
	if got, want := obj.Data[keyChecksum], checksumOf(text, packed); got != want {
		return h, 0, fmt.Errorf("header and records do not match their checksum %.80q", got)
	}
	return h, 0, nil
}

// readLines reads the records after anchor, and returns the place of the last intact one.
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
