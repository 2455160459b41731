package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var begin = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func anyRow(t *rapid.T, n int) Row {
	return Row{
		Name: fmt.Sprintf("res-%d", n), Requester: rapid.SampledFrom([]string{"rome", "milan"}).Draw(t, "requester"),
		Amounts: quantity.Amounts{"cpu": rapid.Int64Range(1, 9).Draw(t, "cpu")}, CreatedAt: begin, EndedAt: begin.Add(time.Minute), Reason: "Released",
		Placements: []Placement{{Provider: "paris", AssignedAt: begin, PerHour: money.Price(n), Currency: "EUR"}},
		Costs:      []Cost{{"EUR", money.Once(money.Price(n))}},
	}
}

// textOf returns rows as they are stored.
func textOf(t *rapid.T, rows []Row) string {
	text, err := (&Batch{Rows: rows}).Encode()
	runtest.Check(t, err)
	return string(text)
}

// After any sequence of additions, closed batches, refused batches and restores, the stored batches
// and the open rows contain all rows in order. The hash of each batch is in its successor, and that
// of the newest in the book.
func TestEachRowIsInOneBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, want, stored := &Book{}, []Row{}, map[Link][]byte{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				r := anyRow(t, len(want))
				b.Add(r)
				want = append(want, r)
			},
			"close": func(t *rapid.T) {
				rows := rapid.IntRange(0, 5).Draw(t, "rows")
				next, found := b.Next(rows)
				if found != (rows > 0 && rows <= len(b.Open())) {
					t.Fatalf("a batch of %d rows is found: %t, of %d", rows, found, len(b.Open()))
				}
				if !found {
					return
				}
				text, err := next.Encode()
				runtest.Check(t, err)
				c := Closed{Link: Link{next.Number, Hash(text)}}
				for name, wrong := range map[string]Closed{
					"an earlier number": {Link: Link{next.Number - 1, c.Hash}}, "a later number": {Link: Link{next.Number + 1, c.Hash}},
					"another hash": {Link: Link{next.Number, Hash(nil)}}, "kept from a later one": {Link: c.Link, KeptFrom: next.Number + 1},
				} {
					if b.CheckClose(wrong, rows) == nil {
						t.Errorf("%s is accepted", name)
					}
				}
				if b.CheckClose(c, rows+1) == nil {
					t.Error("another number of rows is accepted")
				}
				frozen := b.Freeze()
				runtest.Check(t, b.CheckClose(c, rows))
				b.Close(c, rows)
				stored[c.Link] = text
				if got := append(next.Rows, b.Open()...); textOf(t, frozen.Open) != textOf(t, got) {
					t.Error("a frozen copy has changed")
				}
			},
			"restore": func(*rapid.T) { b = Restore(b.Freeze()) },
			"": func(t *rapid.T) {
				got := b.Open()
				for next := b.Closed().Link; next.Batch != 0; {
					read, err := Decode(stored[next])
					runtest.Check(t, err)
					got = append(slices.Clip(read.Rows), got...)
					if next = (Link{}); read.Before != nil {
						next = *read.Before
					}
				}
				if want, got := textOf(t, want), textOf(t, got); want != got {
					t.Errorf("rows (-want +got):\n%s", cmp.Diff(want, got))
				}
			},
		})
	})
}

func TestRowsAreBounded(t *testing.T) {
	r := Row{Message: strings.Repeat("é", 4000), Earlier: 2}
	for i := range 50 {
		r.Placements = append(r.Placements, Placement{Provider: fmt.Sprint(i), Withdrawn: strings.Repeat("x", 1000)})
	}
	r.Clip()
	if len(r.Message) > maxMessage || len(r.Placements) != maxPlacements || r.Earlier != 2+50-maxPlacements {
		t.Errorf("%d bytes, %d placements, %d earlier", len(r.Message), len(r.Placements), r.Earlier)
	}
	if last := r.Placements[maxPlacements-1]; last.Provider != "49" || len(last.Withdrawn) > maxMessage {
		t.Errorf("the last placement is %+v", last)
	}
}

func TestDamagedBatchesAreNotDecoded(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":          "",
		"an unknown field": `{"batch":1,"more":2}`,
		"a row that ends early": `{"batch":1}
{"name":"res-a"`,
	} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s is decoded", name)
		}
	}
}
