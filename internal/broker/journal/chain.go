package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// digest is a SHA-256 sum, written as hexadecimal text.
type digest [sha256.Size]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// shortText returns the first 16 hexadecimal digits of a digest. The names of objects and the
// lines of a segment contain only these: they are enough to locate a break in the chain. The
// segment's header contains the full digest at its last record, which proves the whole chain.
func (d digest) shortText() string { return hex.EncodeToString(d[:8]) }

func (d digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("digest %q has %d characters, not %d", text, len(text), hex.EncodedLen(len(d)))
	}
	_, err := hex.Decode(d[:], text)
	return err
}

// link is a place in the chain: a position and the hash of all records up to it.
type link struct {
	Position uint64 `json:"position"`
	Hash     digest `json:"hash"`
}

// genesisOf returns the place before the first record. It depends on the journal's ID, so two
// journals have different chains.
func genesisOf(id string) link {
	return link{Hash: sha256.Sum256([]byte("journal " + id))}
}

// after returns the place of the next record.
func (l link) after(kind kind, payload []byte) link {
	l.Position++
	h := sha256.New()
	h.Write(l.Hash[:])
	h.Write(binary.BigEndian.AppendUint64(nil, l.Position))
	h.Write([]byte(kind))
	h.Write([]byte{0})
	h.Write(payload)
	h.Sum(l.Hash[:0])
	return l
}

// kind is the kind of a record. In a line, it is the name of the field with the payload.
type kind string

const (
	// kindRecord is a record of the owner.
	kindRecord kind = "record"
	// kindOpen marks that a writer took over.
	kindOpen kind = "open"
	// kindCheckpoint makes a checkpoint valid.
	kindCheckpoint kind = "checkpoint"

	// fieldBytes is the field with the owner's record in base64, if the record is not one line of
	// JSON.
	fieldBytes = "bytes"
)

// entry is one record as read back.
type entry struct {
	at      link
	kind    kind
	payload []byte
}

// appendLine writes a record as one line of JSON.
func appendLine(dst []byte, at link, kind kind, payload []byte) []byte {
	dst = append(dst, `{"p":`...)
	dst = strconv.AppendUint(dst, at.Position, 10)
	dst = append(dst, `,"h":"`...)
	dst = append(dst, at.Hash.shortText()...)
	dst = append(dst, `","`...)
	if isLine(payload) {
		dst = append(dst, kind...)
		dst = append(dst, `":`...)
		dst = append(dst, payload...)
	} else {
		dst = append(dst, fieldBytes+`":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, payload)
		dst = append(dst, '"')
	}
	return append(dst, "}\n"...)
}

func isLine(payload []byte) bool {
	return utf8.Valid(payload) && bytes.IndexByte(payload, '\n') < 0 && json.Valid(payload)
}

// readLine reads the record that follows prev. It refuses a line that differs in any byte
// from what appendLine would have written there.
func readLine(line string, prev link) (entry, error) {
	field, value, ok := cutLine(line)
	if !ok {
		return entry{}, fmt.Errorf("not a record line: %.80q", line)
	}
	e := entry{kind: kind(field), payload: []byte(value)}
	switch field {
	case string(kindRecord), string(kindOpen), string(kindCheckpoint):
	case fieldBytes:
		raw, err := base64.StdEncoding.DecodeString(strings.Trim(value, `"`))
		if err != nil {
			return entry{}, fmt.Errorf("record bytes: %w", err)
		}
		e.kind, e.payload = kindRecord, raw
	default:
		return entry{}, fmt.Errorf("unknown kind of record %.40q", field)
	}
	e.at = prev.after(e.kind, e.payload)
	if want := appendLine(nil, e.at, e.kind, e.payload); string(want) != line+"\n" {
		return entry{}, fmt.Errorf("record does not follow from the one before: want %.40q, have %.40q", want, line)
	}
	return e, nil
}

func cutLine(line string) (field, value string, ok bool) {
	rest, ok := strings.CutPrefix(line, `{"p":`)
	if !ok {
		return "", "", false
	}
	_, rest, ok = strings.Cut(rest, `,"h":"`)
	if !ok {
		return "", "", false
	}
	_, rest, ok = strings.Cut(rest, `","`)
	if !ok {
		return "", "", false
	}
	field, rest, ok = strings.Cut(rest, `":`)
	if !ok {
		return "", "", false
	}
	value, ok = strings.CutSuffix(rest, "}")
	return field, value, ok
}
