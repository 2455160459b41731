package recovery

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// cursor is a position in the journal. Clusters store it in this form:
//
//	<lineage>:<position>:<mac>
//
// The MAC proves that this broker issued the cursor. Without it, a cluster could forge a cursor and
// make the broker believe that its journal was restored from an older state.
type cursor struct {
	lineage  string
	position uint64
}

func (c cursor) encodeText(key []byte) string {
	told := fmt.Sprintf("%s:%d", c.lineage, c.position)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(told))
	return told + ":" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:15])
}

// parseCursor parses the form that clusters store. It returns false for a cursor that was not
// issued with the key.
func parseCursor(text string, key []byte) (cursor, bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return cursor{}, false
	}
	position, err := strconv.ParseUint(parts[1], 10, 64)
	c := cursor{parts[0], position}
	return c, err == nil && hmac.Equal([]byte(c.encodeText(key)), []byte(text))
}

// meaning is what a cluster's cursor says about the book.
type meaning int

const (
	// followed: the book contains every event up to the cursor.
	followed meaning = iota
	// foreign: the cursor was issued for another history of the journal, or not by this broker.
	foreign
	// lost: the cursor names a position that the book has lost.
	lost
)

// PositionOf returns the position after which a cluster with this cursor has to be told what changed.
func PositionOf(cursor string, book *ledger.State) uint64 {
	_, position := readCursor(cursor, book)
	return position
}

// readCursor returns a cursor's meaning and its position. The cluster has to be told what changed
// after the position, which is 0 for a foreign cursor.
func readCursor(text string, book *ledger.State) (meaning, uint64) {
	if text == "" {
		return followed, 0
	}
	c, authentic := parseCursor(text, book.Lineages().Key())
	if !authentic {
		return foreign, 0
	}
	end, known := book.LineageEnd(c.lineage)
	switch {
	case known && c.position <= end:
		return followed, c.position
	case known && c.lineage == book.Lineages().Present().ID:
		return lost, c.position
	case known, book.Lineages().Restored():
		// The cursor names a lost part of the journal. The loss was noticed earlier, and a new lineage
		// began then.
		return foreign, 0
	default:
		return lost, c.position
	}
}

// firstLineage returns a new lineage, with a key, that begins a journal.
func firstLineage() *ledger.Lineage {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails, see crypto/rand
	return &ledger.Lineage{ID: lineageID(), Key: key}
}

func lineageID() string { return strings.ToLower(rand.Text()[:16]) }

// CursorOf returns the cursor of a position in a book, "" if the book has no lineage yet.
func CursorOf(book *ledger.State, position uint64) string {
	if b := book.Lineages().Present(); b != nil {
		return cursor{b.ID, position}.encodeText(book.Lineages().Key())
	}
	return ""
}

// CursorAt returns the cursor of a position in the book.
func (rc *Recovery) CursorAt(position uint64) string { return CursorOf(rc.s.Book(), position) }
