package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	costs "github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

// total is what one account holds and pays for one resource, and the sums with which the payment is
// compared, as text of whole numbers.
type total struct{ Held, Money, Dearest, DearestPaid, List, ListPaid string }

// totalOf identifies the total of one resource for one requester, provider, tenant and currency.
type totalOf struct {
	costs.Key
	Resource corev1.ResourceName
}

// totals holds, for each totalOf, the sums of the fields of total.
type totals map[totalOf]*[6]big.Int

func (t totals) add(key totalOf, figures [6]*big.Int) {
	if t[key] == nil {
		t[key] = &[6]big.Int{}
	}
	for i, figure := range figures {
		t[key][i].Add(&t[key][i], figure)
	}
}

func (t totals) addRow(row *costs.Row) {
	t.add(totalOf{row.Key, row.Resource}, [6]*big.Int{
		row.Held.Int(), row.Money.Int(), row.Dearest.Cost.Int(), row.Dearest.Paid.Int(), row.List.Cost.Int(), row.List.Paid.Int(),
	})
}

func (t totals) texts() map[totalOf]total {
	out := map[totalOf]total{}
	for key, sums := range t {
		t := total{sums[0].String(), sums[1].String(), sums[2].String(), sums[3].String(), sums[4].String(), sums[5].String()}
		if t != (total{"0", "0", "0", "0", "0", "0"}) {
			out[key] = t
		}
	}
	return out
}

// metered is the meter of a reservation, the account that pays, and the list price of a core, all
// of which apply since a time in Unix seconds.
type metered struct {
	meter   ledger.Meter
	key     costs.Key
	list    string
	seconds int64
}

// recount integrates over all records of a journal the slow way: it looks at every reservation
// after every record. It shares no sums with the accounts, only the ledger's meter and the keys.
func recount(recovery journal.Recovery) (totals, error) {
	state, running, sums := ledger.New(), map[string]metered{}, totals{}
	finish := func(was metered, until int64) {
		over := func(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(until-was.seconds)) }
		for name, amount := range was.meter.Amounts {
			none, paid := new(big.Int), over(int64(was.meter.Share(name)))
			figures := [6]*big.Int{over(amount), paid, none, none, none, none}
			if p := was.meter.Price; p != nil && p.Dearest != nil {
				figures[2], figures[3] = over(int64(p.Dearest.Share(name, was.meter.Amounts, 0))), paid
			}
			if was.meter.Price != nil && was.list != "" && name == corev1.ResourceCPU {
				billionths := int64(was.list[0]-'0') * 1_000_000_000 * amount / 1000
				figures[4], figures[5] = over(billionths), paid
			}
			key := was.key
			if !was.meter.Price.Prices(name) {
				key.Currency = ""
			}
			sums.add(totalOf{key, name}, figures)
		}
	}
	for _, record := range recovery.Records {
		var e ledger.Event
		if err := e.UnmarshalJSON(record.Data); err != nil {
			return nil, err
		}
		if err := state.Apply(record.Position, &e); err != nil {
			return nil, err
		}
		now, standing, list := state.Latest().Unix(), map[string]bool{}, listIn(state)
		state.Reservations(func(r *ledger.Reservation) {
			m, was := r.Metered(), running[r.Name]
			standing[r.Name] = true
			if m.Equal(was.meter) && was.list == list {
				return
			}
			finish(was, now)
			running[r.Name] = metered{m, replay.KeyOf(r, m), list, now}
		})
		maps.DeleteFunc(running, func(name string, _ metered) bool { return !standing[name] })
	}
	for _, was := range running {
		finish(was, state.Latest().Unix())
	}
	return sums, nil
}

// listIn returns the list price of a core that is in force; "" if there is none.
func listIn(state *ledger.State) string {
	var document struct {
		Accounts struct{ ListPrice struct{ CPUCost string } }
	}
	if text := state.Configuration().Document; text != nil && json.Unmarshal(text, &document) != nil {
		return "unreadable"
	}
	return document.Accounts.ListPrice.CPUCost
}

// costsAgree compares the accounts with a recount of the journal and with those of a replica that
// replayed it. The caller holds the lock, and everything is durable.
func (m *machine) costsAgree(recovery journal.Recovery, again *replay.Book) error {
	want, err := recount(recovery)
	if err != nil {
		return err
	}
	got := totals{}
	add := func(p costs.Period) error {
		for _, row := range p.Rows {
			if row.Used.Plus(row.Unobserved).Cmp(row.Held) > 0 {
				return fmt.Errorf("of %+v more was used than held", row)
			}
			if p.Span == costs.Month {
				got.addRow(&row)
			}
		}
		return nil
	}
	for _, obj := range m.server.Objects() {
		if obj.Labels[replay.LabelAccounts] == "" {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(obj.Name, JournalName+"-accounts-"), "-0")
		p, err := replay.ReadPeriod(context.Background(), m.server.Client(), JournalName, name)
		if err != nil {
			return err
		}
		if err := add(*p); err != nil {
			return err
		}
	}
	for _, p := range append(m.session.whole.Costs.Ended(), m.session.whole.Costs.Open(costs.Month)) {
		if err := add(p); err != nil {
			return err
		}
	}
	if diff := cmp.Diff(want.texts(), got.texts()); diff != "" {
		return fmt.Errorf("accounts (-recounted +rows):\n%s", diff)
	}
	if err := readersAgree(m.server.Client(), machineBegins, again, want); err != nil {
		return err
	}
	ours, err := json.Marshal(m.session.whole.Costs.Freeze())
	if err != nil {
		return err
	}
	theirs, err := json.Marshal(again.Costs.Freeze())
	if err == nil && !bytes.Equal(ours, theirs) {
		err = fmt.Errorf("another replica has other accounts:\n%s\n%s", theirs, ours)
	}
	return err
}

// readersAgree reads the accounts of all months since the time begins from the stored objects, and compares them with a
// recount of the journal.
func readersAgree(store journal.Store, begins time.Time, again *replay.Book, want totals) error {
	read := replay.NewAccounts(store, JournalName, "id", again)
	months := costs.Cover(costs.Month.StartOf(begins), costs.Month.After(costs.Month.StartOf(read.Until())), read.Until(), costs.Month)
	periods, lost, err := read.Read(context.Background(), months)
	if err != nil || len(lost) > 0 {
		return fmt.Errorf("reading the accounts: lost %v: %w", lost, err)
	}
	got := totals{}
	for _, p := range periods {
		for _, row := range p.Rows {
			got.addRow(&row)
		}
	}
	if diff := cmp.Diff(want.texts(), got.texts()); diff != "" {
		return fmt.Errorf("accounts (-recounted +read):\n%s", diff)
	}
	return nil
}

// storeEnded stores ended periods and full batches of the history. Sometimes the broker is killed before or after one of its writes.
func (m *machine) storeEnded(c choose) (cause, error) {
	m.mu.Lock()
	s := m.session
	m.mu.Unlock()
	if c(3) > 0 {
		// The broker's own loop may come to the same periods at the same time.
		var both errgroup.Group
		for range 2 {
			both.Go(func() error {
				return errors.Join(s.Archive.StorePeriods(context.Background()), s.Archive.StoreBatches(context.Background()))
			})
		}
		return cause{}, both.Wait()
	}
	if err := m.durable(); err != nil {
		return cause{}, err
	}
	left, fate := c(8), oneOf(c, journaltest.Stopped, journaltest.StoppedAfter)
	ctx, killed := context.WithCancel(context.Background())
	defer killed()
	m.store.Inject(func(journaltest.Call) journaltest.Fault {
		if left--; left >= 0 {
			return journaltest.None
		}
		killed()
		return fate
	})
	_, _ = s.Archive.StorePeriods(ctx), s.Archive.StoreBatches(ctx)
	m.store.Stop()
	m.abandon() // do not wait: the broker's journal repeats the lost call for seconds
	m.start()
	m.oracle.restarted(m.now())
	return cause{}, m.replays()
}
