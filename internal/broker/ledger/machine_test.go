package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var simulatedSteps = flag.Int("ledger.steps", 100_000, "events that TestSimulation tries, over one seed for every 200; half of them with -short")

// resources are the resources of the random events. beds is in no offer.
var resources = []corev1.ResourceName{corev1.ResourceCPU, gpu, "beds"}

// choose returns a number from 0 to n-1.
type choose func(n int) int

// machine applies random events to a State and to the naive book, and compares them.
type machine struct {
	state   *State
	naive   *naive
	history [][]byte // accepted events in the form of the journal
	now     time.Time
	// twin was restored from a snapshot and applies all later events from JSON; nil before the
	// first restart.
	twin *State
	// snapshots is the interval, in events, at which the machine checks that a refused event leaves
	// the whole snapshot unchanged; 1 checks every refused event. tried counts the events.
	snapshots, tried int
}

func newMachine(snapshots int) *machine {
	return &machine{state: New(), naive: newNaive(), now: begin, snapshots: snapshots}
}

// tryEvent applies one event to both books and compares them.
func (m *machine) tryEvent(e Event) error {
	m.now = m.now.Add(time.Second)
	e.At, e.By = m.now, m.anyActor()
	was, held := m.state.Position(), m.heldNow()
	price := m.priceEvent(&e)
	before, err := m.snapshotBefore(&e)
	if err != nil {
		return err
	}
	refusals := m.naive.refusalsOf(&e)
	got := m.state.Apply(was+1, &e)
	if err := checkAnswer(got, refusals); err != nil {
		return err
	}
	if err := m.followEvent(&e, got); err != nil {
		return err
	}
	if got != nil {
		return m.checkUnchanged(was, before)
	}
	if m.state.Position() != was+1 {
		return fmt.Errorf("position %d, want %d", m.state.Position(), was+1)
	}
	m.naive.recordEvent(&e)
	m.naive.notePrices(&e, price)
	if err := m.keptHolds(&e, held); err != nil {
		return err
	}
	return m.naive.compareTo(m.state)
}

func checkAnswer(got error, refusals []error) error {
	if got == nil && len(refusals) == 0 {
		return nil
	}
	if slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(got, r) }) {
		return nil
	}
	return fmt.Errorf("answer %v, want one of %v", got, refusals)
}

func (m *machine) heldNow() map[string]quantity.Amounts {
	out := make(map[string]quantity.Amounts, len(m.state.clusters.byID))
	for id, c := range m.state.clusters.byID {
		out[id] = c.Held()
	}
	return out
}

// keptHolds checks that a cluster holds less only after an event that may free capacity: a report
// of its provider, the end of a quote, a new lineage, the removal of the cluster, or, if the
// cluster has no agent, the change or end of a placement.
func (m *machine) keptHolds(e *Event, before map[string]quantity.Amounts) error {
	mayFree := func(cluster string) bool {
		switch e.Change.(type) {
		case *ProviderGone, *EndQuote, *Lineage, *Settle, *Restate:
			return true
		case *ForgetCluster:
			return e.Change.(*ForgetCluster).ClusterID == cluster
		case *Edit, *Withdraw, *End, *Adopt:
			return !m.state.HasAgent(cluster)
		default:
			return false
		}
	}
	for id, was := range before {
		now := m.state.clusters.byID[id].Held()
		for resource, amount := range was {
			if now[resource] < amount && !mayFree(id) {
				return fmt.Errorf("%s held %d of %s and now holds %d", id, amount, resource, now[resource])
			}
		}
	}
	return nil
}

// snapshotBefore returns a snapshot if the event will be refused and is due for the check;
// otherwise nil.
func (m *machine) snapshotBefore(e *Event) ([]byte, error) {
	if m.tried++; m.tried%m.snapshots != 0 {
		return nil, nil
	}
	if _, refused := m.state.Check(e); refused == nil {
		return nil, nil
	}
	return m.state.Freeze().Bytes()
}

func (m *machine) checkUnchanged(position uint64, before []byte) error {
	if m.state.Position() != position {
		return fmt.Errorf("a refused event moved the position from %d to %d", position, m.state.Position())
	}
	if before == nil {
		return m.naive.compareTo(m.state)
	}
	after, err := m.state.Freeze().Bytes()
	if err == nil && !bytes.Equal(before, after) {
		err = fmt.Errorf("a refused event changed the book:\n%s\n%s", before, after)
	}
	return err
}

// followEvent adds an accepted event to the history. The twin applies every event from JSON and
// must give the same answer.
func (m *machine) followEvent(e *Event, answer error) error {
	if answer != nil && (m.twin == nil || e.Change == nil) {
		return nil // an event without a change is never written
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if answer == nil {
		m.history = append(m.history, raw)
	}
	if m.twin == nil {
		return nil
	}
	var read Event
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	if got := m.twin.Apply(m.twin.Position()+1, &read); fmt.Sprint(got) != fmt.Sprint(answer) {
		return fmt.Errorf("the restored book answers %v, the running one %v", got, answer)
	}
	return nil
}

// restartTwin restores the twin from a new snapshot, and compares the former and the new twin with
// the book.
func (m *machine) restartTwin() error {
	if err := m.twinAgrees(); err != nil {
		return err
	}
	raw, err := m.state.Freeze().Bytes()
	if err != nil {
		return err
	}
	if m.twin, err = Restore(raw); err != nil {
		return err
	}
	return m.twinAgrees()
}

func (m *machine) twinAgrees() error {
	if m.twin == nil {
		return nil
	}
	if err := m.naive.compareTo(m.twin); err != nil {
		return fmt.Errorf("the restored book: %w", err)
	}
	return sameSnapshot(m.state, m.twin)
}

// replayAccepted applies the accepted events to an empty book, which must then equal the State.
func (m *machine) replayAccepted() error {
	again := New()
	for i, raw := range m.history {
		var e Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		if err := again.Apply(uint64(i+1), &e); err != nil {
			return fmt.Errorf("replaying event %d: %w", i+1, err)
		}
	}
	return sameSnapshot(m.state, again)
}

func sameSnapshot(a, b *State) error {
	left, err := a.Freeze().Bytes()
	if err != nil {
		return err
	}
	right, err := b.Freeze().Bytes()
	if err == nil && !bytes.Equal(left, right) {
		err = fmt.Errorf("the books differ:\n%s\n%s", left, right)
	}
	return err
}

// trials are the kinds of events that a machine tries. The weights keep a simulated book about half
// full.
var trials = []struct {
	name   string
	weight int
	event  func(*machine, choose) Event
}{
	{"offer", 5, (*machine).anyOffer},
	{"reserve", 12, (*machine).anyReserve},
	{"move", 6, (*machine).anyMove},
	{"acknowledge", 6, func(m *machine, c choose) Event { r := m.anyPlacement(c); return acknowledge(r.Name, r.Placement) }},
	{"node ready", 4, func(m *machine, c choose) Event {
		r := m.anyPlacement(c)
		return nodeReady(r.Name, r.Placement, c(3) > 0)
	}},
	{"connect", 4, func(m *machine, c choose) Event { return Event{Change: &Connect{PlacementRef: m.anyPlacement(c)}} }},
	{"withdraw", 4, (*machine).anyWithdraw},
	{"provider gone", 5, func(m *machine, c choose) Event { r := m.anyPlacement(c); return providerGone(r.Name, r.Placement) }},
	{"consumer gone", 4, func(m *machine, c choose) Event { r := m.anyPlacement(c); return consumerGone(r.Name, r.Placement) }},
	{"end", 3, (*machine).anyEnd},
	{"renew", 4, func(m *machine, c choose) Event {
		e := renew(m.anyName(c), m.now.Add(time.Duration(c(99))*time.Minute))
		e.Change.(*Renew).Repriced = c(2) == 0
		return e
	}},
	{"change", 10, (*machine).anyChange},
	{"settle", 14, (*machine).anySettle},
	{"silence", 2, func(m *machine, c choose) Event {
		e := &Silence{ClusterID: oneOf(c, paris, berlin, oslo, "nowhere")}
		if c(2) == 0 {
			e.Since = m.now
		}
		return Event{Change: e}
	}},
	{"restate", 2, func(m *machine, c choose) Event {
		return Event{Change: &Restate{PlacementRef: m.anyPlacement(c), Amounts: m.anyAmounts(c)}}
	}},
	{"heal", 8, (*machine).anyHeal},
	{"recall", 4, (*machine).anyRecall},
	{"idle", 5, (*machine).anyIdle},
	{"close", 5, (*machine).anyClose},
	{"exceed", 6, (*machine).anyExceed},
	{"lift pauses", 1, func(_ *machine, c choose) Event {
		return Event{Change: &LiftPauses{ClusterID: oneOf(c, paris, berlin, rome, "nowhere"), Mark: oneOf(c, "", "one", "two", "three", strings.Repeat("x", 64+c(2)))}}
	}},
	{"forget cluster", 1, (*machine).anyForgetCluster},
	{"shut", 1, func(m *machine, c choose) Event { return shut(oneOf(c, rome, "athens"), m.anyKey(c)) }},
	{"forget", 3, (*machine).anyForget},
	{"lineage", 1, (*machine).anyLineage},
	{"announced", 1, func(_ *machine, c choose) Event {
		return Event{Change: &Announced{ClusterID: oneOf(c, paris, berlin, rome, "nowhere")}}
	}},
	{"adopt", 4, (*machine).anyAdopt},
	{"enqueue", 5, (*machine).anyEnqueue},
	{"grant", 5, (*machine).anyGrant},
	{"preempt", 6, (*machine).anyPreempt},
	{"ceilings", 1, (*machine).anyCeilings},
	{"observe", 1, func(*machine, choose) Event { return Event{Change: &Observe{}} }},
	{"close period", 1, func(_ *machine, c choose) Event {
		return Event{Change: &ClosePeriod{Period: oneOf(c, "", "hour-2026-03-01t12"), Hash: strings.Repeat("a", 64-c(2))}}
	}},
	{"close batch", 5, func(_ *machine, c choose) Event {
		return Event{Change: &CloseBatch{Batch: uint64(c(2)), Rows: c(3) - 1, Hash: strings.Repeat("a", 64-c(2))}}
	}},
	{"keep", 5, (*machine).anyKeep},
	{"let go", 4, (*machine).anyLetGo},
	{"take", 4, (*machine).anyTake},
	{"claim", 11, func(m *machine, c choose) Event {
		claimed := &Request{Key: m.anyKey(c)}
		m.chooseWants(c, claimed)
		return Event{Change: &Claim{Name: m.anyName(c), Request: oneOf(c, nil, claimed)}}
	}},
}

// chooseWants sets the optional fields of a request, most of them to their defaults.
func (m *machine) chooseWants(c choose, r *Request) {
	r.Patient, r.Queue = c(6) == 0, c(6) == 0
	r.Wait, r.Priority = oneOf(c, 0, 0, 0, time.Minute), oneOf[int32](c, 0, 0, 0, 7)
	r.Tenant, r.Target = oneOf(c, "", "", "", "blue"), oneOf(c, "", "", "", paris)
	if c(6) == 0 {
		r.Requirements = &brokerv1alpha1.Requirements{Group: "web"}
	}
}

func oneOf[T any](c choose, from ...T) T { return from[c(len(from))] }

func (m *machine) anyName(c choose) string { return fmt.Sprint("r", c(10)) }

func (m *machine) anyKey(c choose) string { return fmt.Sprint("key-r", c(12)) }

// anyPlacement usually names an existing placement.
func (m *machine) anyPlacement(c choose) PlacementRef {
	if len(m.naive.grants) == 0 || c(12) == 0 {
		return refTo(m.anyName(c), int32(c(4)))
	}
	g := m.naive.grants[c(len(m.naive.grants))]
	return refTo(g.entry.name, g.number)
}

func (m *machine) anyAmounts(c choose) quantity.Amounts {
	out := cpu(int64(c(12)) * 250)
	switch c(8) {
	case 0:
		out[gpu] = int64(c(3))
	case 1:
		out["beds"] = int64(c(2))
	case 2:
		out[corev1.ResourceCPU] = quantity.Limit >> c(3)
	}
	return out
}

// anyOffer returns an offer of random amounts, sometimes below the held ones. The agents of the
// hand-written cluster and of the requester appear late or never.
func (m *machine) anyOffer(c choose) Event {
	id := oneOf(c, paris, paris, berlin, berlin, oslo, rome)
	if c(10) == 0 {
		m.now = m.now.Add(time.Duration(c(30)) * time.Hour)
	}
	late := map[string]int{oslo: 8, rome: 2}
	o := &Offer{ClusterID: id, Agent: late[id] == 0 || c(late[id]) == 0, Allocatable: quantity.Amounts{
		corev1.ResourceCPU: int64(c(13)) * 1000, gpu: int64(c(5)),
	}}
	o.Capacity, o.Cost = o.Allocatable, m.anyCost(c)
	if c(2) == 0 {
		o.Allocated = cpu(int64(c(9)) * 250)
	}
	if c(3) == 0 {
		o.OverSubscription = quantity.Ratios{corev1.ResourceCPU: int64(101 + c(150))}
	}
	if c(40) == 0 {
		o.ClusterID = ""
	}
	for range c(4) {
		if o.Used == nil {
			o.Used = map[string]quantity.Amounts{}
		}
		o.Used[m.anyPlacement(c).String()] = quantity.Amounts{corev1.ResourceCPU: int64(c(14))*250 - int64(1-min(c(40), 1)), gpu: int64(c(2))}
	}
	return Event{Change: o}
}

func (m *machine) anyReserve(c choose) Event {
	e := reserveFor(oneOf(c, rome, rome, "athens"), m.anyName(c), oneOf(c, paris, paris, berlin, oslo, "nowhere"), m.anyAmounts(c))
	if c(6) == 0 {
		e.Change.(*Reserve).Key = m.anyKey(c)
	}
	e.Change.(*Reserve).Until = m.now.Add(time.Hour)
	e.Change.(*Reserve).Duration = time.Duration(c(2)) * time.Hour
	m.chooseWants(c, &e.Change.(*Reserve).Request)
	return e
}

// anyMove usually moves a reservation that has not ended and has a withdrawn placement.
func (m *machine) anyMove(c choose) Event {
	name := m.anyName(c)
	for _, g := range m.naive.grants {
		if g.withdrawn && g.entry.end == "" && c(3) > 0 {
			name = g.entry.name
		}
	}
	return move(name, oneOf(c, paris, berlin, oslo, "nowhere"))
}

func (m *machine) anyWithdraw(c choose) Event {
	ref := m.anyPlacement(c)
	e := withdraw(ref.Name, ref.Placement)
	if c(20) == 0 {
		e.Change.(*Withdraw).Reason = ""
	} else {
		e.Change.(*Withdraw).Reason = oneOf(c, e.Change.(*Withdraw).Reason, "NeverReady", "NeverConnected", "HandshakeRefused", "Unacknowledged", "Unacknowledged", "ProviderLost", "ProviderBack", "ProviderForgotten")
	}
	e.Change.(*Withdraw).Refused = e.Change.(*Withdraw).Reason != "" && c(4) == 0
	return e
}

func (m *machine) anyEnd(c choose) Event {
	return end(m.anyName(c), oneOf(c, EndReleased, EndExpired, EndFailed, EndReleased, EndExpired, EndFailed, ""))
}

// anyChange usually returns the next change of a reservation that a provider has acknowledged.
func (m *machine) anyChange(c choose) Event {
	ch := &Edit{Name: m.anyName(c), Generation: int64(c(5)), Duration: time.Duration(c(3)) * time.Hour, Until: m.now.Add(time.Duration(c(99)) * time.Minute)}
	for _, g := range m.naive.grants {
		if g.isStanding() && !g.acked.IsZero() && c(3) == 0 {
			ch.Name, ch.Generation = g.entry.name, g.entry.generation+1
		}
	}
	if c(4) > 0 {
		ch.Amounts = m.anyAmounts(c)
	}
	return Event{Change: ch}
}

// anySettle usually answers a change that waits for its answer.
func (m *machine) anySettle(c choose) Event {
	e := &Settle{PlacementRef: m.anyPlacement(c), Generation: int64(c(5)), Refused: oneOf(c, "", "", "InsufficientCapacity")}
	for _, entry := range m.naive.entries {
		if entry.asked != nil && c(8) > 0 {
			e.PlacementRef, e.Generation = refTo(entry.name, entry.asked.number), entry.asked.generation
		}
	}
	return Event{Change: e}
}

// anyForget usually names reservations that are over, sometimes twice or together with others.
func (m *machine) anyForget(c choose) Event {
	f := &Forget{}
	for _, e := range m.naive.entries {
		if m.naive.isOver(e) && c(2) == 0 {
			f.Names = append(f.Names, e.name)
		}
	}
	if len(f.Names) > 0 && c(4) == 0 {
		f.Names = append(f.Names, f.Names[0])
	}
	if c(8) == 0 {
		f.Names = append(f.Names, m.anyName(c))
	}
	if c(2) == 0 {
		f.Keys = append(f.Keys, CloseKey{oneOf(c, rome, "athens"), m.anyKey(c)})
	}
	return Event{Change: f}
}

// anyForgetCluster usually names a cluster that nothing uses.
func (m *machine) anyForgetCluster(c choose) Event {
	id := oneOf(c, paris, berlin, oslo, rome, "nowhere")
	for _, other := range []string{berlin, rome, oslo, paris} {
		if m.naive.hasAgent(other) && !m.naive.isUsed(other) && c(4) > 0 {
			id = other
		}
	}
	return Event{Change: &ForgetCluster{ClusterID: id}}
}

// anyLineage usually continues the previous lineage. Sometimes it does not name the cluster whose
// cursor showed the loss.
func (m *machine) anyLineage(c choose) Event {
	l := &Lineage{ID: fmt.Sprint("lineage-", len(m.history)), Key: []byte("key")}
	if m.naive.lineage != "" {
		l = &Lineage{ID: l.ID, Seen: uint64(c(1000)), By: rome}
	}
	if c(8) == 0 {
		l.By = ""
	}
	return Event{Change: l}
}

// anyAdopt often adds a placement to a reservation, sometimes with a gap in the numbers.
func (m *machine) anyAdopt(c choose) Event {
	a := &Adopt{
		PlacementRef: refTo(m.anyName(c), int32(c(4)*oneOf(c, 1, 1, 1, 8))), Provider: oneOf(c, paris, berlin, oslo, "nowhere"),
		Requester: oneOf(c, rome, rome, rome, "athens"), Amounts: m.anyAmounts(c),
		Acknowledged: c(2) == 0, Until: m.now.Add(time.Hour), Withdrawn: oneOf(c, "", "", "Released"),
	}
	return Event{Change: a}
}

func TestBookAgainstNaiveBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(1)
		must := func(err error) {
			runtest.Check(t, err)
		}
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
		actions := map[string]func(*rapid.T){
			"restart": func(*rapid.T) { must(m.restartTwin()) },
			"nothing": func(*rapid.T) { must(m.tryEvent(Event{})) },
		}
		for _, kind := range trials {
			actions[kind.name] = func(*rapid.T) { must(m.tryEvent(kind.event(m, pick))) }
		}
		t.Repeat(actions)
		must(m.twinAgrees())
		must(m.replayAccepted())
	})
}

// TestSimulation runs the machine without rapid and without shrinking, which is fast enough for a
// million events (-ledger.steps=1000000).
func TestSimulation(t *testing.T) {
	const stepsPerSeed = 200
	steps, tried, accepted := *simulatedSteps, 0, map[string]int{}
	if testing.Short() {
		steps /= 2
	}
	for seed := 0; tried < steps; seed++ {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		m := newMachine(16)
		for range stepsPerSeed {
			kind := trials[pickTrial(random)]
			before := len(m.history)
			if err := m.tryEvent(kind.event(m, random.IntN)); err != nil {
				t.Fatalf("seed %d, event %d, %s: %v", seed, before+1, kind.name, err)
			}
			accepted[kind.name] += len(m.history) - before
			if tried++; tried%(stepsPerSeed/2) == 0 {
				if err := m.restartTwin(); err != nil {
					t.Fatalf("seed %d, restart after event %d: %v", seed, before+1, err)
				}
			}
		}
		if err := errors.Join(m.twinAgrees(), m.replayAccepted()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, kind := range trials {
		if accepted[kind.name] < tried/1000 {
			t.Errorf("%d of %d events tried were an accepted %q: too few to say anything", accepted[kind.name], tried, kind.name)
		}
	}
	t.Logf("%d events tried, accepted: %v", tried, accepted)
}

func pickTrial(random *rand.Rand) int {
	sum := 0
	for _, kind := range trials {
		sum += kind.weight
	}
	n, i := random.IntN(sum), 0
	for ; n >= trials[i].weight; i++ {
		n -= trials[i].weight
	}
	return i
}
