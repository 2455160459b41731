package replay_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	endedReservations = 30
	rowsInBatch       = 3
)

// storedHistory returns a journal with endedReservations forgotten reservations, all of them in stored batches, and the
// ID of the journal.
func storedHistory(t *testing.T, checkpoint bool) (*journaltest.Server, string) {
	t.Helper()
	return storedJournal(t, checkpoint, func(r *recorder) {
		for i := range endedReservations {
			r.now = r.now.Add(time.Second)
			name := fmt.Sprintf("res-%010d", i)
			r.record(&ledger.Reserve{
				Name: name, Provider: "paris", Until: r.now.AddDate(0, 0, 9),
				Request: ledger.Request{Requester: "rome", Key: name, Amounts: quantity.Amounts{"cpu": 4000}},
			})
			r.record(&ledger.End{Name: name, Reason: ledger.EndReleased})
			r.record(&ledger.Forget{Names: []string{name, name}}) // an event may name a reservation twice
			if next, found := r.book.History.Next(rowsInBatch); found {
				text := storeBatch(t, r.server, r.journalID, &next)
				r.record(&ledger.CloseBatch{Batch: next.Number, Rows: rowsInBatch, Hash: history.Hash(text)})
			}
		}
	})
}

func storeBatch(t *testing.T, server *journaltest.Server, journalID string, b *history.Batch) []byte {
	t.Helper()
	text, err := b.Encode()
	runtest.Check(t, err)
	objects, err := replay.PackBatch(journalName, journalID, b.Number, text)
	runtest.Check(t, err)
	for _, obj := range objects {
		_ = server.Client().Delete(t.Context(), obj.Name)
		if _, err := server.Client().Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

func readEnded(t *testing.T, server *journaltest.Server) *replay.Ended {
	t.Helper()
	ended, err := replay.ReadEnded(t.Context(), server.Client(), journalName)
	runtest.Check(t, err)
	return ended
}

// A forger edits, deletes and adds stored batches, and recomputes their hashes and those of all later batches. The
// journal, which the members' anchors prove, still shows every edit.
func TestForgedHistoryDisagreesWithTheJournal(t *testing.T) {
	const edits = 100
	random := rand.New(rand.NewPCG(7, 8))
	for _, checkpoint := range []bool{false, true} {
		genuine, journalID := storedHistory(t, checkpoint)
		if _, got, err := replay.VerifyStored(t.Context(), genuine.Client(), journalName); err != nil || got.Proved != endedReservations/rowsInBatch || len(got.Unproved)+len(got.Wrong) != 0 {
			t.Fatalf("genuine: %+v, %v", got, err)
		}
		genuineRows := readEnded(t, genuine)
		if len(genuineRows.Rows) != endedReservations || genuineRows.Missing != "" {
			t.Fatalf("%d ended reservations are read, and %q is missing", len(genuineRows.Rows), genuineRows.Missing)
		}
		kinds := map[string]int{}
		for range edits / 2 {
			forged := genuine.Clone()
			kind := forgeHistory(t, forged, journalID, random)
			kinds[kind]++
			_, got, err := replay.VerifyStored(t.Context(), forged.Client(), journalName)
			if err != nil || len(got.Wrong) == 0 {
				t.Fatalf("%s is not found: %+v, %v", kind, got, err)
			}
			for _, row := range readEnded(t, forged).Rows {
				if row.Requester == "mallory" {
					t.Fatalf("%s is shown", kind)
				}
			}
		}
		t.Logf("all found: %v", kinds)
		if len(kinds) != 5 {
			t.Errorf("%d kinds of edits were made, want 5", len(kinds))
		}
	}
}

// forgeHistory makes one random edit and returns its kind.
func forgeHistory(t *testing.T, server *journaltest.Server, journalID string, random *rand.Rand) (kind string) {
	t.Helper()
	ended := readEnded(t, server)
	slices.SortFunc(ended.Rows, func(a, b history.Row) int { return strings.Compare(a.Name, b.Name) })
	var all []*history.Batch
	for rows := range slices.Chunk(ended.Rows, rowsInBatch) {
		all = append(all, &history.Batch{Number: uint64(len(all) + 1), Rows: slices.Clone(rows)})
	}
	i := random.IntN(len(all))
	switch random.IntN(5) {
	case 0:
		kind = "an edited row"
		all[i].Rows[0].Requester = "mallory"
	case 1:
		kind = "a deleted row"
		all[i].Rows = all[i].Rows[1:]
	case 2:
		kind = "an added batch"
		all = append(all, &history.Batch{Number: uint64(len(all) + 1), Rows: []history.Row{{Name: "res-forged", Requester: "mallory"}}})
	case 3:
		runtest.Check(t, server.Client().Delete(t.Context(), replay.BatchObject(journalName, journalID, all[i].Number, 0)))
		return "a deleted batch"
	case 4:
		server.Tamper(replay.BatchObject(journalName, journalID, all[i].Number, 0), func(obj *journal.Object) bool {
			rows := slices.Clone(obj.Binary["rows"])
			rows[10+random.IntN(len(rows)-20)] ^= 1 << random.IntN(8) // only behind the header of gzip, which has unused bits
			obj.Binary["rows"] = rows
			return true
		})
		return "a flipped bit"
	}
	var before *history.Link
	for _, b := range all {
		b.Before = before
		before = &history.Link{Batch: b.Number, Hash: history.Hash(storeBatch(t, server, journalID, b))}
	}
	return kind
}

// BenchmarkBatch measures what the broker does for a full batch: under its lock (check), and outside of it (pack).
func BenchmarkBatch(b *testing.B) {
	const rows = 500
	book, random := &history.Book{}, rand.New(rand.NewPCG(1, 2))
	name := func(n int) string {
		out := make([]byte, n)
		for i := range out {
			out[i] = "abcdefghijklmnopqrstuvwxyz234567"[random.IntN(32)]
		}
		return string(out)
	}
	at := time.Date(2026, time.October, 30, 22, 0, 0, 0, time.UTC)
	for range rows {
		at = at.Add(time.Duration(random.IntN(300)) * time.Second)
		requester := fmt.Sprintf("cluster-%d", random.IntN(20))
		book.Add(history.Row{
			Name: "res-" + name(10), Requester: requester, Tenant: "research", By: requester + ":alice", EndedBy: "deadlines",
			Amounts:   quantity.Amounts{"cpu": int64(1+random.IntN(16)) * 1000, "memory": int64(1+random.IntN(64)) << 30},
			CreatedAt: at.Add(-time.Duration(random.IntN(36000)) * time.Second), EndedAt: at, Reason: "Expired", Message: "its duration is over",
			Placements: []history.Placement{{
				Provider: fmt.Sprintf("cluster-%d", random.IntN(20)), AssignedAt: at, AcknowledgedAt: at, PerHour: money.Price(random.IntN(1e9)), Currency: "EUR",
			}},
			Costs: []history.Cost{{Currency: "EUR", Sum: money.Once(money.Price(random.IntN(1e9)))}},
		})
	}
	next, _ := book.Next(rows)
	text, err := next.Encode()
	runtest.Check(b, err)
	closed := history.Closed{Link: history.Link{Batch: 1, Hash: history.Hash(text)}}
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			runtest.Check(b, book.CheckClose(closed, rows))
		}
	})
	b.Run("pack", func(b *testing.B) {
		for b.Loop() {
			objects, err := replay.PackBatch(journalName, "0123456789abcdef0123456789abcdef", 1, text)
			runtest.Check(b, err)
			b.ReportMetric(float64(len(objects[0].Binary["rows"])), "bytes/batch")
			b.ReportMetric(float64(len(text)), "bytes/open-rows")
		}
	})
}
