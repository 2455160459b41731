package recovery

import (
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// FuzzCursor checks that a forged cursor never makes the broker believe that its journal was
// restored, and that a genuine cursor is read correctly.
func FuzzCursor(f *testing.F) {
	key := []byte("0123456789abcdef0123456789abcdef")
	book := ledger.New()
	runtest.Check(f, book.Apply(1, &ledger.Event{At: time.Unix(0, 0).UTC(), Change: &ledger.Lineage{ID: "first", Key: key}}))
	for _, told := range []cursor{{"first", 1}, {"first", 2}, {"first", 1 << 63}, {"other", 1}} {
		f.Add(told.encodeText(key), told.lineage, told.position)
	}
	f.Add("", "", uint64(0))
	f.Add("first:1:", "a:b", uint64(1))
	f.Add("::", "", uint64(1))
	f.Fuzz(func(t *testing.T, shown, lineage string, position uint64) {
		if c, authentic := parseCursor(shown, key); authentic && c.encodeText(key) != shown {
			t.Errorf("%q is read as %+v, which is told as %q", shown, c, c.encodeText(key))
		}
		meant, after := readCursor(shown, book)
		if _, authentic := parseCursor(shown, key); !authentic && (meant == lost || after != 0) {
			t.Errorf("%q was made up, and means %d after %d", shown, meant, after)
		}
		told := cursor{lineage, position}
		if c, authentic := parseCursor(told.encodeText(key), key); authentic && c != told {
			t.Errorf("%+v is read as %+v", told, c)
		}
	})
}
