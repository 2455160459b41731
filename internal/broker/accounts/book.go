package accounts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

// Others is the provider name under which entries are pooled. Once a Book has Pairs accounts, or
// mostOwn of the requester, it adds entries that would need another account to one account for each
// requester and currency, with this provider. It does the same with an entry whose account would get
// more than mostLines lines.
const Others = "others"

// Pairs is how many accounts a Book keeps apart, mostOwn how many of one requester, and mostLines how
// many resources of each. They limit the memory of the Book, and what a requester can take from others:
// requesters choose their tenants, and providers the names of their resources. A line takes about 0.5 KiB.
const (
	Pairs     = 4096
	mostOwn   = Pairs / 4
	mostLines = 128
)

// Gap is the longest possible time between two events while the broker runs and an entry is open.
// After a longer time without events, the Book assumes that the broker did not run.
const Gap = 12 * time.Minute

// keptHours limits the periods with the span Hour: when an event comes after a long time without
// events, only the last keptHours hours before it are stored one by one. A broker that did not run
// for a month would otherwise write hundreds of periods.
const keptHours = 48

// Book holds the accounts of the present hour, day and month, and the periods that have ended but
// are not stored yet. New returns an empty Book. A Book must not be used concurrently.
type Book struct {
	// now is the time of the latest event in seconds since the Unix epoch. It is 0 before the first
	// event.
	now      int64
	accounts map[Key]*account
	// ofRequester is the number of accounts of each requester.
	ofRequester map[string]int
	// pooled is the set of the IDs of open entries that are added up under the provider Others.
	pooled map[string]struct{}
	// ended holds the periods that have ended and are not stored yet, in the order in which they
	// ended.
	ended []Period
	// closed holds the newest closed period of each span.
	closed map[Span]Closed
	// pairs, own and lines are Pairs, mostOwn and mostLines, except in tests.
	pairs, own, lines int
}

type account struct {
	// open is the number of entries that have begun and have not ended.
	open int
	// until is the time up to which the sums are complete, in seconds since the Unix epoch.
	until int64
	lines []line
}

// line holds the sums of one account for one resource. hour is added to day only when the hour
// ends, and day to month only when the day ends.
type line struct {
	resource         corev1.ResourceName
	now              rates
	hour, day, month Figures
}

// rates are the sums over all open entries of one line. perHour is the price for one hour. dearest
// and list compare this price with other prices.
type rates struct {
	held, used, unobserved, perHour money.Sum
	dearest, list                   Comparison
}

// New returns an empty book.
func New() *Book {
	return &Book{
		accounts: map[Key]*account{}, ofRequester: map[string]int{}, pooled: map[string]struct{}{}, closed: map[Span]Closed{},
		pairs: Pairs, own: mostOwn, lines: mostLines,
	}
}

// Begin opens an entry: its amounts count from the time of the latest event.
func (b *Book) Begin(e *Entry) { e.eachAccount(b.beginIn) }

func (b *Book) beginIn(e *Entry) {
	if !b.hasRoom(e) {
		b.pooled[e.ID] = struct{}{}
	}
	b.resumeIn(e)
}

// hasRoom reports whether an entry is kept apart from others. The answer depends only on what Freeze
// and Resume restore, so it is the same in a Book that was restored.
func (b *Book) hasRoom(e *Entry) bool {
	a := b.accounts[e.Key]
	if a == nil {
		return b.hasRoomFor(e.Key)
	}
	more := 0
	for _, l := range e.Lines {
		if _, known := a.find(l.Resource); !known {
			more++
		}
	}
	return more == 0 || len(a.lines)+more <= b.lines
}

// hasRoomFor reports whether the Book may have an account for a key.
func (b *Book) hasRoomFor(key Key) bool {
	return b.accounts[key] != nil || len(b.accounts) < b.pairs && b.ofRequester[key.Requester] < b.own
}

// End closes an entry at the time of the latest event. e must be equal to the entry that was given
// to Begin.
func (b *Book) End(e *Entry) { e.eachAccount(b.endIn) }

func (b *Book) endIn(e *Entry) {
	if _, pooled := b.pooled[e.ID]; pooled {
		delete(b.pooled, e.ID)
		e = e.pooled()
	}
	a := b.accountOf(e.Key)
	a.open--
	b.changeRates(a, e.Lines, money.Sum.Minus)
	b.dropIdle(e.Key, a)
}

// Replace closes one entry (before) and opens another one (after). Either may be nil.
func (b *Book) Replace(before, after *Entry) {
	if before != nil {
		b.End(before)
	}
	if after != nil {
		b.Begin(after)
	}
}

// Charge adds a price that is paid once, for the transfer of data. dearest is what the same
// transfer would have cost on the most expensive candidate.
func (b *Book) Charge(key Key, resource corev1.ResourceName, price money.Price, dearest OtherPrice) {
	if price == 0 && dearest.PerHour == 0 {
		return
	}
	if !b.hasRoomFor(key) {
		key = key.pooled()
	}
	a := b.accountOf(key)
	f := Figures{Money: money.Once(price)}
	if dearest.Known {
		f.Dearest = Comparison{money.Once(dearest.PerHour), money.Once(price)}
	}
	a.lineOf(resource).hour.add(f)
}

func (b *Book) accountOf(key Key) *account {
	a := b.accounts[key]
	if a == nil {
		a = &account{until: b.now}
		b.accounts[key] = a
		b.ofRequester[key.Requester]++
	}
	b.completeAccount(a, b.now, true)
	return a
}

func (b *Book) changeRates(a *account, lines []Line, op func(money.Sum, money.Sum) money.Sum) {
	for _, l := range lines {
		if l.Held == 0 {
			continue // its line would have no sums
		}
		r := &a.lineOf(l.Resource).now
		r.held, r.used = op(r.held, money.Over(l.Held, 1)), op(r.used, money.Over(l.Used, 1))
		r.unobserved = op(r.unobserved, money.Over(l.Unobserved, 1))
		r.perHour = op(r.perHour, money.Over(l.PerHour, 1))
		dearest, list := l.Dearest.comparisonWith(l.PerHour), l.List.comparisonWith(l.PerHour)
		r.dearest = Comparison{op(r.dearest.Cost, dearest.Cost), op(r.dearest.Paid, dearest.Paid)}
		r.list = Comparison{op(r.list.Cost, list.Cost), op(r.list.Paid, list.Paid)}
	}
}

// find returns the index of the line of a resource, or of where it belongs.
func (a *account) find(resource corev1.ResourceName) (i int, known bool) {
	return slices.BinarySearchFunc(a.lines, resource, func(l line, name corev1.ResourceName) int { return cmp.Compare(l.resource, name) })
}

func (a *account) lineOf(resource corev1.ResourceName) *line {
	i, known := a.find(resource)
	if !known {
		a.lines = slices.Insert(a.lines, i, line{resource: resource})
	}
	return &a.lines[i]
}

// Advance moves the time forward to the time of an event. If more than Gap has passed since the
// previous event, the broker did not run, and all capacity that was held since the previous event
// counts as unobserved.
func (b *Book) Advance(at time.Time) {
	to := at.Unix()
	if b.now == 0 {
		b.now = to
	}
	if to <= b.now {
		return
	}
	observed := to-b.now <= int64(Gap/time.Second)
	if !observed {
		b.completeAll(b.now, true)
	}
	for {
		end := Hour.After(Hour.StartOf(time.Unix(b.now, 0)))
		if to < end.Unix() {
			break
		}
		b.completeAll(end.Unix(), observed)
		b.endHour(end, at)
		b.now = end.Unix()
	}
	b.now = to
	if !observed {
		b.completeAll(to, false)
	}
}

// completeAll adds the time up to a point in time, the parameter until, to the sums of all accounts.
func (b *Book) completeAll(until int64, observed bool) {
	for _, a := range b.accounts {
		b.completeAccount(a, until, observed)
	}
}

// completeAccount adds the time from the end of the last completed time (the field until of the account) to the
// parameter until to the sums of an account. If observed is false, it counts this time as held but not observed.
func (b *Book) completeAccount(a *account, until int64, observed bool) {
	seconds := until - a.until
	if seconds <= 0 {
		return
	}
	a.until = until
	if a.open == 0 {
		return
	}
	for i := range a.lines {
		l := &a.lines[i]
		f := l.now.sumOver(seconds)
		if !observed {
			f.Used, f.Unobserved = money.Sum{}, f.Held
		}
		l.hour.add(f)
	}
}

// sumOver returns the sums that these rates add up to in the given number of seconds.
func (r *rates) sumOver(seconds int64) Figures {
	return Figures{
		Held: r.held.Times(seconds), Used: r.used.Times(seconds), Unobserved: r.unobserved.Times(seconds),
		Money: r.perHour.Times(seconds), Dearest: r.dearest.sumOver(seconds), List: r.list.sumOver(seconds),
	}
}

func (c *Comparison) sumOver(seconds int64) Comparison {
	return Comparison{c.Cost.Times(seconds), c.Paid.Times(seconds)}
}

// endHour ends the hour that ends at the time end. It adds the sums of the hour to those of the
// day. If the day or the month ends at the same time, endHour also ends the day or the month. at
// is the time of the next event.
func (b *Book) endHour(end, at time.Time) {
	start := end.Add(-time.Hour)
	if at.Sub(end) < keptHours*time.Hour {
		b.keepEnded(Hour, start, func(l *line) *Figures { return &l.hour })
	}
	b.eachLine(func(_ Key, l *line) { l.day.add(l.hour); l.hour = Figures{} })
	if day := Day.StartOf(start); !Day.After(day).After(end) {
		b.keepEnded(Day, day, func(l *line) *Figures { return &l.day })
		b.eachLine(func(_ Key, l *line) { l.month.add(l.day); l.day = Figures{} })
	}
	if month := Month.StartOf(start); !Month.After(month).After(end) {
		b.keepEnded(Month, month, func(l *line) *Figures { return &l.month })
		b.eachLine(func(_ Key, l *line) { l.month = Figures{} })
	}
	for key, a := range b.accounts {
		b.dropIdle(key, a)
	}
}

func (b *Book) eachLine(f func(Key, *line)) {
	for key, a := range b.accounts {
		for i := range a.lines {
			f(key, &a.lines[i])
		}
	}
}

func (b *Book) keepEnded(span Span, start time.Time, of func(*line) *Figures) {
	if rows := b.rowsOf(func(l *line) Figures { return *of(l) }); len(rows) > 0 {
		b.ended = append(b.ended, Period{Part: Part{span, start}, Rows: rows})
	}
}

func (b *Book) rowsOf(figures func(*line) Figures) []Row {
	var rows []Row
	b.eachLine(func(key Key, l *line) {
		if f := figures(l); f != (Figures{}) {
			rows = append(rows, Row{key, l.resource, f})
		}
	})
	slices.SortFunc(rows, compareRows)
	return rows
}

// dropIdle removes the lines of an account of which nothing is held and that have no sums for the present hour, day
// and month. It removes the account if it then has no lines and no open entry. Both are removed at once, because their
// numbers decide which entries are pooled.
func (b *Book) dropIdle(key Key, a *account) {
	a.lines = slices.DeleteFunc(a.lines, func(l line) bool { return l == line{resource: l.resource} })
	if a.open > 0 || len(a.lines) > 0 {
		return
	}
	delete(b.accounts, key)
	if b.ofRequester[key.Requester]--; b.ofRequester[key.Requester] == 0 {
		delete(b.ofRequester, key.Requester)
	}
}

// Open returns the rows of the current hour, day or month, up to the latest event.
func (b *Book) Open(span Span) Period {
	b.completeAll(b.now, true)
	return Period{Part: Part{span, span.StartOf(time.Unix(b.now, 0))}, Rows: b.rowsOf(func(l *line) Figures { return l.openIn(span) })}
}

// EachOpen calls f for each sum of the current hour, day or month, up to the latest event. The
// order is random.
func (b *Book) EachOpen(span Span, f func(Key, corev1.ResourceName, Figures)) {
	b.completeAll(b.now, true)
	b.eachLine(func(key Key, l *line) { f(key, l.resource, l.openIn(span)) })
}

// openIn returns the sums of the current period of a span.
func (l *line) openIn(span Span) Figures {
	f := l.hour
	if span != Hour {
		f.add(l.day)
	}
	if span == Month {
		f.add(l.month)
	}
	return f
}

// Ended returns the periods that have ended and are not stored yet. The caller must not change
// them.
func (b *Book) Ended() []Period { return b.ended }

// IsEmpty reports whether the book has no accounts: no entry is open, and there are no sums for the
// present hour, day and month.
func (b *Book) IsEmpty() bool { return len(b.accounts) == 0 }

// NextEnded returns the oldest period that has ended and is not stored yet, in the form in which it
// is stored: with a Link to the period before. The result is false if there is none.
func (b *Book) NextEnded() (Period, bool) {
	if len(b.ended) == 0 {
		return Period{}, false
	}
	return b.withLink(0), true
}

// withLink returns the period ended[i], with a Link to the newest closed period of its span.
func (b *Book) withLink(i int) Period {
	p := b.ended[i]
	if before := b.closed[p.Span]; before.Period != "" {
		p.Before = &before.Link
	}
	return p
}

// Closed returns the newest closed period of a span.
func (b *Book) Closed(span Span) Closed { return b.closed[span] }

// CheckDrop returns an error unless c closes the oldest period of its span that waits to be stored,
// with the hash of its rows.
func (b *Book) CheckDrop(c Closed) error {
	i := b.indexOf(c.Period)
	if i < 0 {
		return fmt.Errorf("the period %s has not ended, or was stored before", c.Period)
	}
	p := b.withLink(i)
	if slices.ContainsFunc(b.ended[:i], func(earlier Period) bool { return earlier.Span == p.Span }) {
		return fmt.Errorf("the period %s is stored before an earlier one", c.Period)
	}
	if c.KeptFrom != "" && !strings.HasPrefix(c.KeptFrom, string(p.Span)+"-") {
		return fmt.Errorf("the period %s is kept from %s, which is no %s", c.Period, c.KeptFrom, p.Span)
	}
	text, err := p.Encode()
	if err != nil {
		return err
	}
	if got := Hash(text); got != c.Hash {
		return fmt.Errorf("the rows of the period %s have hash %s, and %s was stored", c.Period, got, c.Hash)
	}
	return nil
}

// Drop removes a period that was stored from those that Ended returns. It does nothing for other
// periods.
func (b *Book) Drop(c Closed) {
	i := b.indexOf(c.Period)
	if i < 0 {
		return
	}
	span := b.ended[i].Span
	c.KeptFrom = max(c.KeptFrom, b.closed[span].KeptFrom)
	b.closed[span] = c
	b.ended = slices.Delete(slices.Clone(b.ended), i, i+1)
}

func (b *Book) indexOf(name string) int {
	return slices.IndexFunc(b.ended, func(p Period) bool { return p.Name() == name })
}

// Frozen is a copy of a Book for a snapshot, which is encoded as JSON. It holds the sums, but not the
// open entries.
type Frozen struct {
	Now    int64           `json:"now"`
	Lines  []frozenLine    `json:"lines,omitempty"`
	Pooled []string        `json:"pooled,omitempty"`
	Ended  []Period        `json:"ended,omitempty"`
	Closed map[Span]Closed `json:"closed,omitempty"`
}

type frozenLine struct {
	Key
	Resource corev1.ResourceName `json:"resource"`
	Hour     Figures             `json:"hour"`
	Day      Figures             `json:"day"`
	Month    Figures             `json:"month"`
}

// Freeze returns a copy of the sums up to the latest event. Equal books give equal copies.
func (b *Book) Freeze() *Frozen {
	b.completeAll(b.now, true)
	out := &Frozen{Now: b.now, Pooled: slices.Sorted(maps.Keys(b.pooled)), Ended: b.ended, Closed: maps.Clone(b.closed)}
	b.eachLine(func(key Key, l *line) {
		if l.hour != (Figures{}) || l.day != (Figures{}) || l.month != (Figures{}) {
			out.Lines = append(out.Lines, frozenLine{key, l.resource, l.hour, l.day, l.month})
		}
	})
	slices.SortFunc(out.Lines, func(a, c frozenLine) int {
		return cmp.Or(a.Key.compare(c.Key), cmp.Compare(a.Resource, c.Resource))
	})
	return out
}

// Restore returns the Book that was frozen, without its open entries. The caller must then call
// Resume for every open entry.
func Restore(in *Frozen) *Book {
	b := New()
	b.now, b.ended = in.Now, in.Ended
	maps.Copy(b.closed, in.Closed)
	for _, id := range in.Pooled {
		b.pooled[id] = struct{}{}
	}
	for _, l := range in.Lines {
		to := b.accountOf(l.Key).lineOf(l.Resource)
		to.hour, to.day, to.month = l.Hour, l.Day, l.Month
	}
	return b
}

// Resume opens an entry again that was open when the book was frozen.
func (b *Book) Resume(e *Entry) { e.eachAccount(b.resumeIn) }

func (b *Book) resumeIn(e *Entry) {
	if _, pooled := b.pooled[e.ID]; pooled {
		e = e.pooled()
	}
	a := b.accountOf(e.Key)
	a.open++
	b.changeRates(a, e.Lines, money.Sum.Plus)
}
