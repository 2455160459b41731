package replay_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const journalName = "test"

// recorder records events in a journal and in the book that belongs to it.
type recorder struct {
	*testing.T
	server    *journaltest.Server
	journalID string
	book      *replay.Book
	journal   *journal.Journal
	last      *journal.Commit
	now       time.Time
}

func (r *recorder) record(change ledger.Change) {
	r.Helper()
	e := ledger.Event{At: r.now, Change: change}
	checked, err := r.book.State.Check(&e)
	if err == nil {
		err = r.book.CheckEvent(&e)
	}
	runtest.Check(r, err)
	data, err := e.MarshalJSON()
	runtest.Check(r, err)
	r.last = r.journal.Append(data)
	r.book.ApplyEvent(checked, &e, r.last.Position())
}

// storedJournal returns a journal with offers of rome and paris, and with what write records. With checkpoint, the last
// record is a checkpoint, so that no earlier record is read.
func storedJournal(t *testing.T, checkpoint bool, write func(r *recorder)) (*journaltest.Server, string) {
	t.Helper()
	server := journaltest.NewServer()
	j, recovery, err := journal.Open(t.Context(), server.Client(), journalName, journal.Options{})
	runtest.Check(t, err)
	book, err := replay.Read(recovery)
	runtest.Check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	r := &recorder{T: t, server: server, journalID: recovery.ID, book: book, journal: j, now: time.Date(2026, time.October, 30, 22, 0, 0, 0, time.UTC)}
	room := quantity.Amounts{"cpu": 16000}
	for _, id := range []string{"rome", "paris"} {
		r.record(&ledger.Offer{ClusterID: id, Capacity: room, Allocatable: room})
	}
	write(r)
	runtest.Check(t, r.last.Wait(t.Context()))
	if checkpoint {
		state, err := book.Freeze().Encode()
		if err == nil {
			err = j.Checkpoint(t.Context(), state, book.State.Position(), r.now)
		}
		runtest.Check(t, err)
	}
	return server, recovery.ID
}

// storedAccounts returns a journal with a reservation that is two days old, and the stored periods
// of these days. The broker keeps the hours since keptFrom; all if it is "".
func storedAccounts(t *testing.T, checkpoint bool, keptFrom string) *journaltest.Server {
	t.Helper()
	server, _ := storedJournal(t, checkpoint, func(r *recorder) {
		r.record(&ledger.Reserve{
			Name: "res-k3v9x2m7qa", Provider: "paris", Until: r.now.AddDate(0, 0, 9),
			Request: ledger.Request{Requester: "rome", Key: "request-1", Amounts: quantity.Amounts{"cpu": 4000}, Duration: 9 * 24 * time.Hour},
		})
		for range 2 * 24 * 2 {
			r.now = r.now.Add(30 * time.Minute)
			r.record(&ledger.Observe{})
			for next, found := r.book.Costs.NextEnded(); found; next, found = r.book.Costs.NextEnded() {
				text, err := next.Encode()
				runtest.Check(t, err)
				store(t, r.server, &next, text)
				closed := &ledger.ClosePeriod{Period: next.Name(), Hash: accounts.Hash(text)}
				if next.Span == accounts.Hour {
					closed.KeptFrom = keptFrom
				}
				r.record(closed)
			}
		}
	})
	return server
}

func store(t *testing.T, server *journaltest.Server, p *accounts.Period, text []byte) {
	t.Helper()
	objects, err := replay.PackPeriod(journalName, p, text)
	runtest.Check(t, err)
	for _, obj := range objects {
		_ = server.Client().Delete(t.Context(), obj.Name)
		if _, err := server.Client().Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

func verify(t *testing.T, server *journaltest.Server) *replay.Verified {
	t.Helper()
	found, _, err := replay.VerifyStored(t.Context(), server.Client(), journalName)
	runtest.Check(t, err)
	return found
}

// A forger edits, deletes, exchanges and adds stored periods, and recomputes their hashes and those of all later periods.
// The journal, which the members' anchors prove, still shows every edit.
func TestForgedPeriodsDisagreeWithTheJournal(t *testing.T) {
	edits := 1000
	if testing.Short() {
		edits = 200
	}
	random := rand.New(rand.NewPCG(7, 7))
	for _, checkpoint := range []bool{false, true} {
		genuine := storedAccounts(t, checkpoint, "")
		if got := verify(t, genuine); got.Proved != 48+2+1 || len(got.Unproved)+len(got.Wrong) != 0 {
			t.Fatalf("genuine: %+v", got)
		}
		kinds := map[string]int{}
		for range edits / 2 {
			forged := genuine.Clone()
			kind := forgePeriods(t, forged, random)
			if got := verify(t, forged); len(got.Wrong) == 0 {
				t.Fatalf("%s is not found: %+v", kind, got)
			}
			kinds[kind]++
		}
		t.Logf("all found: %v", kinds)
		if len(kinds) != 6 {
			t.Errorf("%d kinds of edits were made, want 6", len(kinds))
		}
	}
}

// forgePeriods makes one random edit and returns its kind.
func forgePeriods(t *testing.T, server *journaltest.Server, random *rand.Rand) (kind string) {
	t.Helper()
	span := accounts.Spans[random.IntN(2)] // hours or days; there is only one month
	var all []*accounts.Period
	for _, obj := range server.Objects() {
		if obj.Labels[replay.LabelAccounts] == string(span) {
			name := strings.TrimSuffix(strings.TrimPrefix(obj.Name, journalName+"-accounts-"), "-0")
			p, err := replay.ReadPeriod(t.Context(), server.Client(), journalName, name)
			runtest.Check(t, err)
			all = append(all, p)
		}
	}
	i := random.IntN(len(all))
	drop := func(p *accounts.Period) {
		runtest.Check(t, server.Client().Delete(t.Context(), replay.PeriodObject(journalName, p.Name(), 0)))
	}
	switch random.IntN(6) {
	case 0:
		kind = "an edited row"
		all[i].Rows[0].Tenant = "mallory"
	case 1:
		kind = "a deleted row"
		all[i].Rows = nil
	case 2:
		kind = "a deleted period"
		drop(all[i])
		all = slices.Delete(all, i, i+1)
	case 3:
		kind = "an added period"
		added := *all[len(all)-1]
		added.Start = span.After(added.Start)
		all = append(all, &added)
	case 4:
		kind = "all periods are deleted"
		for _, p := range all {
			drop(p)
		}
		all = nil
	case 5:
		kind = "rows that do not match their hash"
		server.Tamper(replay.PeriodObject(journalName, all[i].Name(), 0), func(obj *journal.Object) bool {
			var packed bytes.Buffer
			to := gzip.NewWriter(&packed)
			fmt.Fprintln(to, "{}")
			_ = to.Close()
			obj.Binary["rows"] = packed.Bytes()
			return true
		})
		return kind
	}
	var before *accounts.Link
	for _, p := range all {
		p.Before = before
		text, err := p.Encode()
		runtest.Check(t, err)
		store(t, server, p, text)
		before = &accounts.Link{Period: p.Name(), Hash: accounts.Hash(text)}
	}
	return kind
}

func TestDeletedPeriodsAreMissingOnlyWithinTheirRetention(t *testing.T) {
	const keptFrom = "hour-2026-11-01t10"
	server := storedAccounts(t, true, keptFrom)
	hours, kept := 0, 0
	for _, obj := range server.Objects() {
		if obj.Labels[replay.LabelAccounts] != string(accounts.Hour) {
			continue
		}
		hours++
		if obj.Name < replay.PeriodObject(journalName, keptFrom, 0) {
			runtest.Check(t, server.Client().Delete(t.Context(), obj.Name))
			continue
		}
		kept++
	}
	if got := verify(t, server); got.Proved != kept+3 || kept == hours || len(got.Unproved)+len(got.Wrong) != 0 {
		t.Errorf("with %d of %d hours: %+v", kept, hours, got)
	}
	runtest.Check(t, server.Client().Delete(t.Context(), replay.PeriodObject(journalName, keptFrom, 0)))
	if got := verify(t, server); !slices.Equal(got.Wrong, []string{"the period " + keptFrom + " is missing"}) {
		t.Errorf("without the oldest kept hour: %+v", got)
	}
}

// The only reservation began on 30 October, so only hours of that day can be lost.
func TestTimeBeforeTheFirstReservationIsNotLost(t *testing.T) {
	for keptFrom, want := range map[string]int{"": 0, "hour-2026-10-31t00": 24} {
		server := storedAccounts(t, false, keptFrom)
		for _, obj := range server.Objects() {
			if obj.Labels[replay.LabelAccounts] == string(accounts.Hour) && obj.Name < replay.PeriodObject(journalName, keptFrom, 0) {
				runtest.Check(t, server.Client().Delete(t.Context(), obj.Name))
			}
		}
		read, err := replay.OpenAccounts(t.Context(), server.Client(), journalName)
		runtest.Check(t, err)
		first := time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC)
		days := accounts.Cover(first, first.AddDate(0, 1, 0), read.Until(), accounts.Day)
		hours := accounts.Cover(first, first.AddDate(0, 1, 0), read.Until(), accounts.Hour)
		for _, parts := range [][]accounts.Part{days, hours} {
			_, lost, err := read.Read(t.Context(), parts)
			runtest.Check(t, err)
			if parts[0].Span == accounts.Day && len(lost) != 0 || parts[0].Span == accounts.Hour && len(lost) != want {
				t.Errorf("kept from %q: %d of %d are lost", keptFrom, len(lost), len(parts))
			}
		}
	}
}

// A new journal cannot prove periods that were stored before it began.
func TestPeriodsOfAnEarlierJournalAreUnproved(t *testing.T) {
	server, other := journaltest.NewServer(), storedAccounts(t, false, "")
	if _, _, err := journal.Open(t.Context(), server.Client(), journalName, journal.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, obj := range other.Objects() {
		if obj.Labels[replay.LabelAccounts] != "" {
			if _, err := server.Client().Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := verify(t, server); len(got.Unproved) != 51 || len(got.Wrong) != 0 || got.Proved != 0 {
		t.Errorf("%d unproved, want 51: %v", len(got.Unproved), got.Wrong)
	}
}
