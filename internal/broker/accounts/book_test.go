package accounts

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var begin = time.Date(2026, time.January, 31, 22, 59, 59, 300_000_000, time.UTC)

// interval is a time for which an entry counted. observed is false if it was longer than Gap, the
// longest time between two events of a running broker.
type interval struct {
	entry    Entry
	from, to int64
	observed bool
}

// naive stores every interval of every entry, and adds all of them up whenever rows are asked for.
type naive struct {
	intervals []interval
	running   map[string]Entry
	now       int64
	charges   []interval
}

func (n *naive) advance(at time.Time, observed bool) {
	to := at.Unix()
	if n.now != 0 && to <= n.now {
		return
	}
	for _, e := range n.running {
		n.intervals = append(n.intervals, interval{e, n.now, to, observed})
	}
	n.now = to
}

// rowsOf adds up the intervals and charges that fall into a period, sorted like the rows of a Book.
func (n *naive) rowsOf(span Span, start time.Time) []Row {
	type key struct {
		Key
		corev1.ResourceName
	}
	sums := map[key]*[8]big.Int{}
	from, to := start.Unix(), span.After(start).Unix()
	add := func(i interval, seconds int64) {
		for _, l := range i.entry.Lines {
			k := key{i.entry.Key, l.Resource}
			if l.NotPriced {
				k.Currency = ""
			}
			if sums[k] == nil {
				sums[k] = &[8]big.Int{}
			}
			used, unobserved := l.Used, l.Unobserved
			if !i.observed {
				used, unobserved = 0, l.Held
			}
			compare := func(o OtherPrice) (cost, paid int64) {
				if !o.Known {
					return 0, 0
				}
				return int64(o.PerHour), int64(l.PerHour)
			}
			dearest, dearestPaid := compare(l.Dearest)
			list, listPaid := compare(l.List)
			for n, amount := range []int64{l.Held, used, unobserved, int64(l.PerHour), dearest, dearestPaid, list, listPaid} {
				sums[k][n].Add(&sums[k][n], new(big.Int).Mul(big.NewInt(amount), big.NewInt(seconds)))
			}
		}
	}
	for _, i := range n.intervals {
		if seconds := min(i.to, to) - max(i.from, from); seconds > 0 {
			add(i, seconds)
		}
	}
	for _, c := range n.charges {
		if from <= c.from && c.from < to {
			add(c, 3600)
		}
	}
	var rows []Row
	for k, s := range sums {
		f := Figures{sumOf(&s[0]), sumOf(&s[1]), sumOf(&s[2]), sumOf(&s[3]), Comparison{sumOf(&s[4]), sumOf(&s[5])}, Comparison{sumOf(&s[6]), sumOf(&s[7])}}
		if f != (Figures{}) {
			rows = append(rows, Row{k.Key, k.ResourceName, f})
		}
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

func sumOf(n *big.Int) money.Sum {
	var s money.Sum
	if err := s.UnmarshalText([]byte(n.String())); err != nil {
		panic(err)
	}
	return s
}

func anyOther(t *rapid.T, label string) OtherPrice {
	if rapid.Bool().Draw(t, label+" is known") {
		return OtherPrice{money.Price(rapid.Int64Range(0, 1<<62).Draw(t, label)), true}
	}
	return OtherPrice{}
}

func anyEntry(t *rapid.T, id string) *Entry {
	e := &Entry{ID: id, Key: Key{
		Tenant: rapid.SampledFrom([]string{"blue", "red"}).Draw(t, "tenant"), Requester: "rome",
		Provider: rapid.SampledFrom([]string{"paris", "berlin"}).Draw(t, "provider"), Currency: rapid.SampledFrom([]string{"", "EUR"}).Draw(t, "currency"),
	}}
	for _, name := range []corev1.ResourceName{"cpu", "memory"} {
		l := Line{Resource: name, Held: rapid.Int64Range(1, 1<<62).Draw(t, "held")}
		l.Used = rapid.Int64Range(0, l.Held).Draw(t, "used")
		if rapid.Bool().Draw(t, "silent") {
			l.Used, l.Unobserved = 0, l.Held
		}
		if l.NotPriced = rapid.IntRange(0, 3).Draw(t, "priced") == 0; e.Currency != "" && !l.NotPriced {
			l.PerHour = money.Price(rapid.Int64Range(0, 1<<62).Draw(t, "price"))
			l.Dearest, l.List = anyOther(t, "dearest"), anyOther(t, "list")
		}
		e.Lines = append(e.Lines, l)
	}
	return e
}

func TestAccountsAgainstARecountOfAllIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, n, at := New(), &naive{running: map[string]Entry{}}, begin
		stored, closed := map[string]Period{}, map[Span]Link{}
		check := func() {
			for _, p := range b.Ended() {
				if diff := cmp.Diff(n.rowsOf(p.Span, p.Start), p.Rows); diff != "" {
					t.Fatalf("period %s (-recounted +rows):\n%s", p.Name(), diff)
				}
			}
			for _, span := range Spans {
				if open := b.Open(span); cmp.Diff(n.rowsOf(span, open.Start), open.Rows) != "" {
					t.Fatalf("open %s (-recounted +rows):\n%s", span, cmp.Diff(n.rowsOf(span, open.Start), open.Rows))
				}
			}
		}
		advance := func(t *rapid.T) {
			step := rapid.SampledFrom([]time.Duration{
				time.Millisecond, 700 * time.Millisecond, time.Minute, 12 * time.Minute, 12*time.Minute + time.Second, time.Hour, 26 * time.Hour, -time.Hour,
			}).Draw(t, "time")
			at = at.Add(step)
			n.advance(at, at.Unix()-n.now <= 720)
			b.Advance(at)
			check()
		}
		b.Advance(at)
		n.advance(at, true)
		t.Repeat(map[string]func(*rapid.T){
			"time passes": advance,
			"replace": func(t *rapid.T) {
				id := fmt.Sprint("res-", rapid.IntRange(0, 3).Draw(t, "id"))
				var before, after *Entry
				if e, runs := n.running[id]; runs {
					before = &e
					delete(n.running, id)
				}
				if rapid.IntRange(0, 2).Draw(t, "ends") > 0 {
					after = anyEntry(t, id)
					n.running[id] = *after
				}
				b.Replace(before, after)
			},
			"charge": func(t *rapid.T) {
				key, price := anyEntry(t, "").Key, money.Price(rapid.Int64Range(0, 1<<62).Draw(t, "price"))
				dearest := anyOther(t, "dearest")
				b.Charge(key, "egress", price, dearest)
				n.charges = append(n.charges, interval{Entry{Key: key, Lines: []Line{{Resource: "egress", PerHour: price, Dearest: dearest}}}, n.now, n.now, true})
			},
			"store": func(t *rapid.T) {
				if len(b.Ended()) == 0 {
					return
				}
				p, _ := b.NextEnded()
				if before := closed[p.Span]; p.Before == nil && before.Period != "" || p.Before != nil && *p.Before != before {
					t.Fatalf("the period %s names %v as the one before, want %v", p.Name(), p.Before, before)
				}
				text, err := p.Encode()
				runtest.Check(t, err)
				read, err := Decode(text)
				if diff := cmp.Diff(&p, read); err != nil || diff != "" {
					t.Fatalf("%v (-encoded +decoded):\n%s", err, diff)
				}
				link := Link{p.Name(), Hash(text)}
				runtest.Check(t, b.CheckDrop(Closed{Link: link}))
				if b.CheckDrop(Closed{Link: Link{p.Name(), Hash(append(text, ' '))}}) == nil {
					t.Fatal("other rows were accepted")
				}
				if b.CheckDrop(Closed{link, "year-2026"}) == nil {
					t.Fatal("another span was accepted")
				}
				if _, twice := stored[p.Name()]; twice {
					t.Fatalf("the period %s ended twice", p.Name())
				}
				stored[p.Name()] = p
				b.Drop(Closed{Link: link})
				closed[p.Span] = link
			},
			"restore": func(t *rapid.T) {
				again, err := reread(b)
				runtest.Check(t, err)
				for _, id := range slices.Sorted(maps.Keys(n.running)) {
					e := n.running[id]
					again.Resume(&e)
				}
				if b = again; len(b.accounts) > 2*len(n.running)+len(b.Freeze().Lines) { // an entry may have two
					t.Fatal("accounts appeared")
				}
			},
		})
		check()
	})
}

func TestTooManyPairsCountTogether(t *testing.T) {
	b := New()
	b.pairs = 2
	b.Advance(begin)
	entry := func(id, provider string) *Entry {
		return &Entry{ID: id, Key: Key{Tenant: "blue", Requester: "rome", Provider: provider}, Lines: []Line{{Resource: "cpu", Held: 1000}}}
	}
	for _, id := range []string{"paris", "berlin", "oslo", "milan"} {
		b.Begin(entry(id, id))
	}
	b.Advance(begin.Add(10 * time.Second))
	b.End(entry("paris", "paris"))
	b.End(entry("oslo", "oslo"))
	b, err := reread(b)
	runtest.Check(t, err)
	b.Resume(entry("berlin", "berlin"))
	b.Resume(entry("milan", "milan"))
	b.Advance(begin.Add(20 * time.Second))
	got := map[string]int64{}
	for _, row := range b.Open(Month).Rows {
		got[row.Provider] = row.Held.Int64()
	}
	if diff := cmp.Diff(map[string]int64{"paris": 10_000, "berlin": 20_000, Others: 30_000}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTenantsBeyondTheLimitShareOneAccount(t *testing.T) {
	b := New()
	b.pairs = 2
	b.Advance(begin)
	for i := range 20 {
		id := fmt.Sprintf("tenant-%d", i)
		key := Key{Tenant: id, Requester: "rome", Provider: "paris"}
		b.Begin(&Entry{ID: id, Key: key, Lines: []Line{{Resource: "cpu", Held: 1000}}})
		b.Charge(key, "egress", 5, OtherPrice{})
	}
	b.Advance(begin.Add(10 * time.Second))
	if n := len(b.accounts); n != 3 {
		t.Errorf("the book has %d accounts, want 2 and one for the rest", n)
	}
	want := Key{Tenant: "rome", Requester: "rome", Provider: Others}
	if a := b.accounts[want]; a == nil || a.open != 18 {
		t.Errorf("account %+v is %+v, want 18 open entries", want, a)
	}
}

// A requester chooses the names of its tenants, and must not use up the accounts of others with them.
func TestRequesterWithManyTenantsLeavesRoomForOthers(t *testing.T) {
	b := New()
	b.pairs, b.own = 4, 2
	b.Advance(begin)
	for i := range 20 {
		b.Begin(&Entry{ID: fmt.Sprint(i), Key: Key{Tenant: fmt.Sprint(i), Requester: "mallory", Provider: "paris"}, Lines: []Line{{Resource: "cpu", Held: 1}}})
	}
	key := Key{Tenant: "blue", Requester: "rome", Provider: "paris", Currency: "EUR"}
	b.Charge(key, "egress", 5, OtherPrice{})
	if b.accounts[key] == nil {
		t.Errorf("the accounts of mallory leave no room for rome: %v", slices.Collect(maps.Keys(b.accounts)))
	}
}

func TestResourcesBeyondTheLimitShareOneLine(t *testing.T) {
	b := New()
	b.lines = 3
	b.Advance(begin)
	key := Key{Tenant: "blue", Requester: "rome", Provider: "paris"}
	for i := range 20 {
		b.Begin(&Entry{ID: fmt.Sprint(i), Key: key, Lines: []Line{
			{Resource: "cpu", Held: 1}, {Resource: corev1.ResourceName(fmt.Sprintf("paris.example/r%d", i)), Held: 1},
		}})
	}
	b.Advance(begin.Add(10 * time.Second))
	got := map[string]int64{}
	for _, row := range b.Open(Month).Rows {
		got[row.Provider+" "+string(row.Resource)] = row.Held.Int64()
	}
	want := map[string]int64{"paris cpu": 20, "paris paris.example/r0": 10, "paris paris.example/r1": 10, "others cpu": 180, "others others": 180}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Replicas restore their books at other times than the leader, and must come to the same rows.
func TestPoolingIsTheSameAfterARestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, at, running := New(), New(), begin, map[string]Entry{}
		a.pairs, a.own, a.lines, b.pairs, b.own, b.lines = 4, 2, 3, 4, 2, 3
		a.Advance(at)
		b.Advance(at)
		t.Repeat(map[string]func(*rapid.T){
			"replace": func(t *rapid.T) {
				id := fmt.Sprint("res-", rapid.IntRange(0, 5).Draw(t, "id"))
				var before, after *Entry
				if e, runs := running[id]; runs {
					before = &e
					delete(running, id)
				}
				if rapid.IntRange(0, 3).Draw(t, "ends") > 0 {
					after = anyEntry(t, id)
					after.Requester = rapid.SampledFrom([]string{"rome", "oslo", "bern"}).Draw(t, "requester")
					for i := range after.Lines {
						l := &after.Lines[i]
						l.Resource = corev1.ResourceName(rapid.SampledFrom([]string{"cpu", "x/a", "x/b", "x/c", "x/d"}).Draw(t, "resource"))
						if rapid.IntRange(0, 4).Draw(t, "nothing") == 0 {
							*l = Line{Resource: l.Resource, NotPriced: l.NotPriced}
						}
					}
					running[id] = *after
				}
				a.Replace(before, after)
				b.Replace(before, after)
			},
			"time passes": func(t *rapid.T) {
				at = at.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute, time.Hour, 26 * time.Hour}).Draw(t, "time"))
				a.Advance(at)
				b.Advance(at)
			},
			"restore": func(t *rapid.T) {
				again, err := reread(b)
				runtest.Check(t, err)
				again.pairs, again.own, again.lines = 4, 2, 3
				for _, id := range slices.Sorted(maps.Keys(running)) {
					e := running[id]
					again.Resume(&e)
				}
				b = again
			},
			"": func(t *rapid.T) {
				if diff := cmp.Diff(a.Freeze(), b.Freeze()); diff != "" {
					t.Fatalf("(-kept +restored):\n%s", diff)
				}
				counted := map[string]int{}
				for key := range b.accounts {
					counted[key.Requester]++
				}
				if !maps.Equal(counted, b.ofRequester) {
					t.Fatalf("the requesters have %v accounts, and the book says %v", counted, b.ofRequester)
				}
				a.ended, b.ended = nil, nil // as if they were stored
			},
		})
	})
}

func TestLongAbsenceEndsOnlyLateHours(t *testing.T) {
	b := New()
	b.Advance(begin)
	b.Begin(&Entry{ID: "r", Key: Key{Tenant: "blue", Requester: "rome", Provider: "paris"}, Lines: []Line{{Resource: "cpu", Held: 1}}})
	b.Advance(begin.AddDate(0, 0, 20))
	count := map[Span]int{}
	for _, p := range b.Ended() {
		count[p.Span]++
	}
	if diff := cmp.Diff(map[Span]int{Hour: 48, Day: 20, Month: 1}, count); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// reread encodes a frozen copy of a book as JSON, and returns the book restored from it.
func reread(b *Book) (*Book, error) {
	text, err := json.Marshal(b.Freeze())
	if err != nil {
		return nil, err
	}
	var in Frozen
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, err
	}
	return Restore(&in), nil
}
