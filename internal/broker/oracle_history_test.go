package broker

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

// recountHistory lists the forgotten reservations of a journal in words. It integrates what each of them
// cost, and shares nothing with the history but the ledger's fields.
func recountHistory(recovery journal.Recovery) ([]string, error) {
	state, running, paid, out := ledger.New(), map[string]metered{}, map[string]*big.Int{}, []string{}
	for _, record := range recovery.Records {
		var e ledger.Event
		if err := e.UnmarshalJSON(record.Data); err != nil {
			return nil, err
		}
		if forget, ok := e.Change.(*ledger.Forget); ok {
			for _, name := range forget.Names {
				out = append(out, describeForgotten(state.Reservation(name), paid[name]))
			}
		}
		if err := state.Apply(record.Position, &e); err != nil {
			return nil, err
		}
		now := state.Latest().Unix()
		state.Reservations(func(r *ledger.Reservation) {
			m, was := r.Metered(), running[r.Name]
			if m.Equal(was.meter) {
				return
			}
			if was.meter.Price != nil {
				sum := big.NewInt(int64(was.meter.PerHour()))
				sum.Mul(sum, big.NewInt(now-was.seconds))
				paid[r.Name].Add(paid[r.Name], sum)
			}
			if m.Price != nil && paid[r.Name] == nil {
				paid[r.Name] = new(big.Int)
			}
			running[r.Name] = metered{meter: m, seconds: now}
		})
	}
	return out, nil
}

func describeForgotten(r *ledger.Reservation, paid *big.Int) string {
	var placements []string
	for i := range r.Placements {
		p := &r.Placements[i]
		price := "free"
		if p.Price != nil {
			price = p.Price.PerHour(r.AgreedWith(p), 0).String()
		}
		placements = append(placements, fmt.Sprintf("%s at %s %s %q", p.Provider, p.AssignedAt.Time().Format(time.RFC3339), price, p.Withdrawn))
	}
	cost := ""
	if paid != nil {
		cost = paid.String()
	}
	return fmt.Sprintf("%s %s %d %s by %q, ended %s by %q, on %v, for %s", r.Name, r.Requester, heldCores(r), r.EndReason, string(ledger.ActorOf(r.By)),
		r.EndedAt.UTC().Format(time.RFC3339), string(ledger.ActorOf(r.EndedBy)), placements[max(0, len(placements)-8):], cost)
}

func heldCores(r *ledger.Reservation) int64 {
	if p := r.Current(); p != nil {
		return r.AgreedWith(p)[corev1.ResourceCPU]
	}
	return r.Amounts[corev1.ResourceCPU]
}

// describeRow returns what describeForgotten returns for the same reservation. It reads the row in the form in which
// it is stored.
func describeRow(line []byte) (string, error) {
	var r struct {
		Name, Requester, By, EndedBy, Reason string
		Amounts                              map[string]json.Number
		EndedAt                              string
		Placements                           []struct{ Provider, AssignedAt, PerHour, Currency, Withdrawn string }
		Costs                                []struct{ Sum string }
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return "", err
	}
	var placements []string
	for _, p := range r.Placements {
		price := "free"
		if p.Currency != "" {
			price = p.PerHour
			if price == "" {
				price = "0"
			}
		}
		placements = append(placements, fmt.Sprintf("%s at %s %s %q", p.Provider, p.AssignedAt, price, p.Withdrawn))
	}
	cost := ""
	if len(r.Costs) > 0 {
		cost = r.Costs[0].Sum
	}
	return fmt.Sprintf("%s %s %s %s by %q, ended %s by %q, on %v, for %s", r.Name, r.Requester, r.Amounts["cpu"], r.Reason, r.By, r.EndedAt, r.EndedBy, placements, cost), nil
}

// storedRows returns the rows of all stored batches of the history up to the given one.
func (m *machine) storedRows(newest uint64) (lines [][]byte, err error) {
	stored := map[string][]byte{}
	for _, obj := range m.server.Objects() {
		if obj.Labels[replay.LabelHistory] != "" {
			stored[obj.Name] = obj.Binary["rows"]
		}
	}
	names := slices.Sorted(maps.Keys(stored))
	if more := uint64(len(names)); more > newest+1 {
		return nil, fmt.Errorf("%d batches are stored, and %d are closed", more, newest)
	}
	for _, name := range names[:min(newest, uint64(len(names)))] {
		from, err := gzip.NewReader(bytes.NewReader(stored[name]))
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(from)
		if err != nil {
			return nil, err
		}
		lines = append(lines, bytes.Split(bytes.TrimSpace(text), []byte("\n"))[1:]...)
	}
	return lines, nil
}

// historyAgrees compares the history with a recount of the journal, with that of a replica that replayed it, and with
// what a reader without a broker finds. The caller holds the lock, and everything is durable.
func (m *machine) historyAgrees(recovery journal.Recovery, again *replay.Book) error {
	want, err := recountHistory(recovery)
	if err != nil {
		return err
	}
	ours, theirs := m.session.whole.History, again.History
	if diff := cmp.Diff(theirs.Freeze(), ours.Freeze()); diff != "" {
		return fmt.Errorf("another replica has another history (-theirs +ours):\n%s", diff)
	}
	lines, err := m.storedRows(ours.Closed().Batch)
	if err != nil {
		return err
	}
	for _, row := range ours.Open() {
		line, err := json.Marshal(row)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	got := []string{}
	for _, line := range lines {
		text, err := describeRow(line)
		if err != nil {
			return err
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("history (-recounted +rows):\n%s", diff)
	}
	m.did["forgotten"], m.did["stored batches"] = max(m.did["forgotten"], len(got)), max(m.did["stored batches"], int(ours.Closed().Batch))
	return m.endedAgree(want)
}

// endedAgree compares the ended reservations that a reader without a broker finds with the forgotten ones and those in
// the book.
func (m *machine) endedAgree(forgotten []string) error {
	ended, err := replay.ReadEnded(context.Background(), m.server.Client(), JournalName)
	if err != nil || ended.Missing != "" {
		return fmt.Errorf("reading the ended reservations: %s: %w", ended.Missing, err)
	}
	var want, got []string
	for _, text := range forgotten {
		name, _, _ := strings.Cut(text, " ")
		want = append(want, name)
	}
	m.session.book.Reservations(func(r *ledger.Reservation) {
		if r.EndReason != "" {
			want = append(want, r.Name)
		}
	})
	for _, row := range ended.Rows {
		got = append(got, row.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("ended reservations (-told +read):\n%s", diff)
	}
	_, batches, err := replay.VerifyStored(context.Background(), m.server.Client(), JournalName)
	if err == nil && (len(batches.Wrong) > 0 || len(batches.Unproved) > 0 || uint64(batches.Proved) != m.session.whole.History.Closed().Batch) {
		err = fmt.Errorf("an audit finds %+v in the history, of %d batches", batches, m.session.whole.History.Closed().Batch)
	}
	return err
}
