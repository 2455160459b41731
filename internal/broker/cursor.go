package broker

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

// cursor is a position in the journal as clusters are told of it:
//
//	<lineage>:<position>:<mac>
//
// The mac says that it was the broker who told: whoever makes one up must not have
// the broker believe that it was restored.
type cursor struct {
	lineage  string
	position uint64
}

func (c cursor) text(key []byte) string {
	told := fmt.Sprintf("%s:%d", c.lineage, c.position)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(told))
	return told + ":" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:15])
}

// parseCursor returns false for what this journal's broker never told.
func parseCursor(text string, key []byte) (cursor, bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return cursor{}, false
	}
	position, err := strconv.ParseUint(parts[1], 10, 64)
	c := cursor{parts[0], position}
	return c, err == nil && hmac.Equal([]byte(c.text(key)), []byte(text))
}

// meaning of a cursor that a cluster shows.
type meaning int

const (
	// followed: the cluster was told of nothing that the book does not have.
	followed meaning = iota
	// strange: it was told by a broker of another history.
	strange
	// lost: it was told of positions that the book has lost.
	lost
)

// read says what a cursor means, and after which position its holder has news.
func read(text string, book *ledger.State) (meaning, uint64) {
	if text == "" {
		return followed, 0
	}
	c, authentic := parseCursor(text, book.Key())
	if !authentic {
		return strange, 0
	}
	end, known := book.LineageEnd(c.lineage)
	switch {
	case known && c.position <= end:
		return followed, c.position
	case known && c.lineage == book.Branch().ID:
		return lost, c.position
	case known, book.Restored():
		// That this part is lost was noticed before.
		return strange, 0
	default:
		return lost, c.position
	}
}

// firstLineage is for a journal in which nobody was told of a position yet.
func firstLineage() *ledger.Lineage {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails, see crypto/rand
	return &ledger.Lineage{ID: lineageID(), Key: key}
}

func lineageID() string { return strings.ToLower(rand.Text()[:16]) }

// cursor of the newest position.
func (t *session) cursor() string { return t.cursorAt(t.book.Position()) }

func (t *session) cursorAt(position uint64) string { return cursorOf(t.book, position) }

// cursorOf a position in a book, "" before its first lineage.
func cursorOf(book *ledger.State, position uint64) string {
	if b := book.Branch(); b != nil {
		return cursor{b.ID, position}.text(book.Key())
	}
	return ""
}
