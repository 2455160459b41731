package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// naive keeps the same book the slow way: it writes down what happened in lists and
// counts everything again whenever it is asked. It shares no arithmetic and no rule
// with State.
type naive struct {
	clusters map[string]*naiveCluster
	grants   []*naiveGrant
	entries  []*naiveEntry
	tombs    map[Shut]bool
	queue    []*naiveWait
	quotes   []*naiveHold
	ceilings quantity.Ratios
	// kept is what the provider of a grant has said that it keeps.
	kept map[*naiveGrant]quantity.Amounts
	// outcomes are what became of grants, and why is why one was withdrawn.
	outcomes []naiveOutcome
	why      map[*naiveGrant]string
	// dealings are what clusters did to each other, by the one that is to blame or praise.
	dealings map[naiveParty][]naiveDealing
	// exceeded is what a requester ran beyond a grant.
	exceeded map[*naiveGrant]naiveExcess
	// lineage is the present one, and restored whether it is not the first.
	lineage  string
	restored bool
}

type naiveCluster struct {
	last  Offer
	since time.Time // of its agent; zero while none spoke
	// announced is the lineage in which it did.
	announced string
	lost      time.Time
	// lifted is the mark with which its pauses were lifted last.
	lifted string
}

type naiveEntry struct {
	name, requester, key string
	amounts              quantity.Amounts
	until                time.Time
	duration             time.Duration
	end                  EndReason
	unclaimed, patient   bool
	closed               bool
	generation           int64
	// asked is a change of amounts without answer; nil if there is none.
	asked *naiveAsked
}

type naiveGrant struct {
	entry     *naiveEntry
	number    int32
	provider  string
	assigned  time.Time
	acked     time.Time
	ready     bool
	readyOnce bool
	withdrawn bool
	left      bool // the provider did
	leftToo   bool // the consumer did
	lost      bool // nothing is known of it but its number
	// recalled is until when its provider lends it, zero where that does not want it back.
	recalled time.Time
}

func newNaive() *naive {
	return &naive{clusters: map[string]*naiveCluster{}, tombs: map[Shut]bool{}, kept: map[*naiveGrant]quantity.Amounts{}, why: map[*naiveGrant]string{}, dealings: map[naiveParty][]naiveDealing{}, exceeded: map[*naiveGrant]naiveExcess{}}
}

func (g *naiveGrant) stands() bool { return g.entry.end == "" && !g.withdrawn }

func (g *naiveGrant) name() string { return fmt.Sprint(g.entry.name, "-", g.number) }

func (n *naive) speaks(cluster string) bool {
	c := n.clusters[cluster]
	return c != nil && !c.since.IsZero()
}

func (n *naive) entry(name string) *naiveEntry {
	for _, e := range n.entries {
		if e.name == name {
			return e
		}
	}
	return nil
}

func (n *naive) grantsOf(entry *naiveEntry) []*naiveGrant {
	var out []*naiveGrant
	for _, g := range n.grants {
		if g.entry == entry {
			out = append(out, g)
		}
	}
	return out
}

// newestNumber is 0 before the first grant.
func (n *naive) newestNumber(entry *naiveEntry) int32 {
	all := n.grantsOf(entry)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].number
}

func (n *naive) grant(ref PlacementRef) *naiveGrant {
	for _, g := range n.grants {
		if g.entry.name == ref.Name && g.number == ref.Placement {
			return g
		}
	}
	return nil
}

// claimed is Σ max(held, used), and what runs without a hold.
func (n *naive) claimed(cluster string, resource corev1.ResourceName) int64 {
	used := n.clusters[cluster].last.Used
	var sum int64
	for _, u := range used {
		sum += u[resource]
	}
	for _, g := range n.grants {
		if g.provider == cluster && !g.left {
			name := g.name()
			sum += max(n.mayHold(g, resource)-used[name][resource], 0)
		}
	}
	return sum + n.quoted(cluster, resource)
}

func (n *naive) held(cluster string, resource corev1.ResourceName) int64 {
	var sum int64
	for _, g := range n.grants {
		if g.provider == cluster && !g.left {
			sum += n.mayHold(g, resource)
		}
	}
	return sum + n.quoted(cluster, resource)
}

func (n *naive) free(cluster string, resource corev1.ResourceName) int64 {
	return n.freeBeside(n.claimed(cluster, resource), cluster, resource)
}

func (n *naive) freeBeside(claimed int64, cluster string, resource corev1.ResourceName) int64 {
	last := n.clusters[cluster].last
	return max(0, n.stretched(last.Allocatable[resource], resource, &last)-last.Allocated[resource]-claimed)
}

// refusals are all the reasons against an event; State may give any of them.
func (n *naive) refusals(e *Event) []error {
	var no []error
	refuse := func(when bool, reason error) {
		if when {
			no = append(no, reason)
		}
	}
	onGrant := func(ref PlacementRef, want bool, otherwise error) {
		g := n.grant(ref)
		refuse(g == nil, ErrUnknown)
		refuse(g != nil && g.stands() != want, otherwise)
	}
	onLive := func(name string) *naiveEntry {
		entry := n.entry(name)
		refuse(entry == nil, ErrUnknown)
		refuse(entry != nil && entry.end != "", ErrOver)
		return entry
	}
	fits := func(provider string, amounts quantity.Amounts) {
		if n.clusters[provider] == nil {
			refuse(true, ErrUnknown)
			return
		}
		for resource, want := range amounts {
			refuse(want > n.free(provider, resource), ErrOverbooked)
		}
	}
	switch {
	case e.Offer != nil:
		refuse(e.Offer.ClusterID == "", ErrMalformed)
		for _, u := range e.Offer.Used {
			refuse(u[corev1.ResourceCPU] < 0, ErrMalformed)
		}
	case e.Reserve != nil:
		refuse(n.entry(e.Reserve.Name) != nil || n.keyUsed(e.Reserve.Requester, e.Reserve.Key), ErrTaken)
		refuse(e.Reserve.Amounts.IsZero(), ErrMalformed)
		fits(e.Reserve.Provider, e.Reserve.Amounts)
	case e.Move != nil:
		if entry := onLive(e.Move.Name); entry != nil {
			refuse(n.waits(entry) != nil, ErrTaken)
			for _, g := range n.grantsOf(entry) {
				refuse(g.stands(), ErrTaken)
			}
			fits(e.Move.Provider, entry.amounts)
		}
	case e.Acknowledge != nil:
		onGrant(*e.Acknowledge, true, ErrOver)
	case e.NodeReady != nil:
		onGrant(e.NodeReady.PlacementRef, true, ErrOver)
	case e.Withdraw != nil:
		refuse(e.Withdraw.Reason == "", ErrMalformed)
		onGrant(e.Withdraw.PlacementRef, true, ErrOver)
	case e.ProviderGone != nil:
		onGrant(*e.ProviderGone, false, ErrTaken)
	case e.ConsumerGone != nil:
		onGrant(*e.ConsumerGone, false, ErrTaken)
	case e.End != nil:
		refuse(e.End.Reason == "", ErrMalformed)
		onLive(e.End.Name)
	case e.Renew != nil:
		onLive(e.Renew.Name)
	case e.Change != nil:
		entry := onLive(e.Change.Name)
		refuse(entry != nil && e.Change.Generation <= entry.generation, ErrTaken)
		no = append(no, n.refusalsToChange(e.Change, entry)...)
	case e.Settle != nil:
		no = append(no, n.refusalsToSettle(e.Settle)...)
	case e.Reach != nil:
		c := n.clusters[e.Reach.ClusterID]
		refuse(c == nil, ErrUnknown)
		refuse(c != nil && c.lost.IsZero() == e.Reach.Since.IsZero(), ErrTaken)
	case e.Restate != nil:
		no = append(no, n.refusalsToRestate(e.Restate)...)
	case e.Heal != nil:
		no = append(no, n.refusalsToHeal(e.Heal)...)
	case e.Recall != nil:
		no = append(no, n.refusalsToRecall(e.Recall)...)
	case e.Exceed != nil:
		no = append(no, n.refusalsToExceed(e.Exceed)...)
	case e.LiftPauses != nil:
		c, l := n.clusters[e.LiftPauses.ClusterID], e.LiftPauses
		refuse(c == nil, ErrUnknown)
		refuse(l.Mark == "" || len(l.Mark) > 64, ErrMalformed)
		refuse(c != nil && c.lifted == l.Mark, ErrTaken)
	case e.Close != nil:
		entry := n.entry(e.Close.Name)
		refuse(entry == nil, ErrUnknown)
		refuse(entry != nil && (entry.end == "" || entry.closed || n.over(entry) || !n.allLeft(entry)), ErrTaken)
	case e.Shut != nil:
		refuse(n.keyUsed(e.Shut.Requester, e.Shut.Key), ErrTaken)
	case e.Forget != nil:
		for _, name := range e.Forget.Names {
			entry := n.entry(name)
			refuse(entry == nil, ErrUnknown)
			refuse(entry != nil && !n.over(entry), ErrTaken)
		}
	case e.Ceilings != nil:
	case e.Lineage != nil:
		l := e.Lineage
		refuse(l.ID == "" || (n.lineage == "") != (l.Key != nil) || (n.lineage == "") != (l.By == ""), ErrMalformed)
	case e.Announced != nil:
		refuse(n.clusters[e.Announced.ClusterID] == nil, ErrUnknown)
	case e.Adopt != nil:
		no = append(no, n.refusalsToAdopt(e.Adopt)...)
	case e.Claim != nil:
		if entry := onLive(e.Claim.Name); entry != nil {
			refuse(!entry.unclaimed || e.Claim.Key != "" && n.keyUsed(entry.requester, e.Claim.Key), ErrTaken)
		}
	case e.Enqueue != nil, e.Grant != nil, e.Preempt != nil:
		no = append(no, n.refusalsOfQueue(e)...)
	case e.Keep != nil, e.Take != nil, e.LetGo != nil:
		no = append(no, n.refusalsOfHolds(e)...)
	default:
		refuse(true, ErrMalformed)
	}
	return no
}

func (n *naive) refusalsToAdopt(a *Adopt) (no []error) {
	if a.Amounts.IsZero() || a.Placement < 1 || a.Placement > 100 {
		no = append(no, ErrMalformed)
	}
	if n.clusters[a.Provider] == nil {
		no = append(no, ErrUnknown)
	}
	amounts, entry := a.Amounts, n.entry(a.Name)
	if entry != nil {
		amounts = entry.amounts
		if g := n.grant(a.PlacementRef); entry.requester != a.Requester || g != nil && !g.lost {
			no = append(no, ErrTaken)
		}
		if all := n.grantsOf(entry); len(all) > 0 && (all[0].number-a.Placement > 17 || a.Placement-n.newestNumber(entry) > 17) {
			no = append(no, ErrMalformed)
		}
	}
	for resource, amount := range amounts {
		if n.held(a.Provider, resource) > quantity.Limit-amount {
			no = append(no, ErrOverbooked)
		}
	}
	return no
}

func (n *naive) keyUsed(requester, key string) bool {
	for _, e := range n.entries {
		if e.requester == requester && e.key == key {
			return true
		}
	}
	for _, h := range n.quotes {
		if h.kept.Requester == requester && h.kept.Key == key && h.after < 100 {
			return true
		}
	}
	return n.tombs[Shut{requester, key}]
}

func (n *naive) over(entry *naiveEntry) bool {
	for _, g := range n.grantsOf(entry) {
		if !g.left || !g.leftToo {
			return false
		}
	}
	return entry.end != ""
}

// allLeft is whether no provider has anything of an entry.
func (n *naive) allLeft(entry *naiveEntry) bool {
	for _, g := range n.grantsOf(entry) {
		if !g.left {
			return false
		}
	}
	return true
}

// record writes down an event that was accepted.
func (n *naive) record(e *Event) {
	switch {
	case e.Offer != nil:
		c := n.clusters[e.Offer.ClusterID]
		if c == nil {
			c = &naiveCluster{}
			n.clusters[e.Offer.ClusterID] = c
		}
		c.last = *e.Offer
		if e.Offer.Agent && c.since.IsZero() {
			c.since = e.At
		}
	case e.Reserve != nil:
		r := e.Reserve
		entry := &naiveEntry{name: r.Name, requester: r.Requester, key: r.Key, amounts: r.Amounts, until: r.Until, duration: r.Duration, patient: r.Patient}
		n.entries = append(n.entries, entry)
		n.give(&naiveGrant{entry: entry, number: 1, provider: r.Provider, assigned: e.At})
	case e.Move != nil:
		entry := n.entry(e.Move.Name)
		number := n.newestNumber(entry) + 1
		n.give(&naiveGrant{entry: entry, number: number, provider: e.Move.Provider, assigned: e.At})
	case e.Acknowledge != nil:
		if g := n.grant(*e.Acknowledge); g.acked.IsZero() {
			g.acked = e.At
			if !n.speaks(g.entry.requester) {
				n.deal(naiveParty{g.provider, false}, naiveDealing{e.At, g.entry.requester, g.name(), "good", 0})
			}
		}
	case e.NodeReady != nil:
		g := n.grant(e.NodeReady.PlacementRef)
		if e.NodeReady.Ready && !g.readyOnce {
			n.delivered(g, e.At)
		}
		g.ready = e.NodeReady.Ready
		g.readyOnce = g.readyOnce || g.ready
	case e.Withdraw != nil:
		g := n.grant(e.Withdraw.PlacementRef)
		n.leave(g, e)
		g.withdrawn, g.ready = true, false
		n.giveUp(g, e.At)
	case e.ProviderGone != nil:
		g := n.grant(*e.ProviderGone)
		if _, beyond := n.exceeded[g]; !beyond {
			n.deal(naiveParty{g.entry.requester, true}, naiveDealing{e.At, g.provider, g.name(), "good", 0})
		}
		g.left = true
	case e.ConsumerGone != nil:
		n.grant(*e.ConsumerGone).leftToo = true
	case e.End != nil:
		entry := n.entry(e.End.Name)
		entry.end = e.End.Reason
		for _, g := range n.grantsOf(entry) {
			n.giveUp(g, e.At)
		}
	case e.Renew != nil:
		n.entry(e.Renew.Name).until = e.Renew.Until
	case e.Change != nil:
		entry := n.entry(e.Change.Name)
		if w := n.waits(entry); w != nil {
			if w.hold += e.Change.Duration - entry.duration; entry.duration == 0 || e.Change.Duration == 0 {
				w.hold = e.Change.Duration
			} else if w.hold < time.Second {
				w.hold = time.Second
			}
		}
		entry.until, entry.generation, entry.duration = e.Change.Until, e.Change.Generation, e.Change.Duration
		n.change(e.Change, entry)
	case e.Settle != nil:
		n.settle(e.Settle)
	case e.Ceilings != nil:
		n.ceilings = e.Ceilings.OverSubscription
	case e.Reach != nil:
		n.clusters[e.Reach.ClusterID].lost = e.Reach.Since
	case e.Restate != nil:
		n.restate(e.Restate)
	case e.Heal != nil:
		entry := n.entry(e.Heal.Name)
		number := n.newestNumber(entry) + 1
		n.give(&naiveGrant{entry: entry, number: number, provider: e.Heal.Provider, assigned: e.At})
	case e.Recall != nil:
		n.grant(e.Recall.PlacementRef).recalled = e.Recall.Ends
	case e.Exceed != nil:
		n.exceed(e)
	case e.LiftPauses != nil:
		n.clusters[e.LiftPauses.ClusterID].lifted = e.LiftPauses.Mark
		delete(n.dealings, naiveParty{e.LiftPauses.ClusterID, false})
		delete(n.dealings, naiveParty{e.LiftPauses.ClusterID, true})
	case e.Close != nil:
		n.entry(e.Close.Name).closed = true
	case e.Shut != nil:
		n.tombs[*e.Shut] = true
	case e.Forget != nil:
		n.forget(e.Forget)
	case e.Lineage != nil:
		if n.lineage != "" {
			n.loseHolds()
		}
		n.lineage, n.restored = e.Lineage.ID, e.Lineage.By != ""
	case e.Announced != nil:
		n.clusters[e.Announced.ClusterID].announced = n.lineage
	case e.Adopt != nil:
		n.adopt(e)
	case e.Claim != nil:
		entry := n.entry(e.Claim.Name)
		entry.unclaimed = false
		if e.Claim.Key != "" {
			entry.patient = e.Claim.Patient
		}
		if e.Claim.Key != "" {
			entry.key = e.Claim.Key
		}
	case e.Enqueue != nil, e.Grant != nil, e.Preempt != nil:
		n.recordQueue(e)
	case e.Keep != nil, e.Take != nil, e.LetGo != nil:
		n.recordHolds(e)
	}
}

// adopt fills the number in, and those between it and others that nobody has announced.
func (n *naive) adopt(e *Event) {
	a := e.Adopt
	entry := n.entry(a.Name)
	if entry == nil {
		entry = &naiveEntry{
			name: a.Name, requester: a.Requester, key: "adopted/" + a.Name, amounts: a.Amounts, until: a.Until, unclaimed: true,
		}
		n.entries = append(n.entries, entry)
	}
	gone := func(number int32) *naiveGrant {
		return &naiveGrant{entry: entry, number: number, provider: a.Provider, withdrawn: true, left: true, leftToo: true, lost: true}
	}
	if all := n.grantsOf(entry); len(all) == 0 {
		n.grants = append(n.grants, gone(a.Placement))
	} else {
		for number := all[0].number - 1; number >= a.Placement; number-- {
			n.grants = slices.Insert(n.grants, 0, gone(number))
		}
		for number := n.newestNumber(entry) + 1; number <= a.Placement; number++ {
			n.grants = append(n.grants, gone(number))
		}
	}
	adopted := n.grant(a.PlacementRef)
	*adopted = naiveGrant{entry: entry, number: a.Placement, provider: a.Provider, assigned: e.At, withdrawn: a.Withdrawn != ""}
	n.kept[adopted] = entry.amounts
	if a.Acknowledged {
		adopted.acked, adopted.readyOnce = e.At, true
	}
	if w := n.waits(entry); w != nil && adopted.stands() {
		w.left, entry.until = true, a.Until
	}
	current := n.newest(entry)
	for _, g := range n.grantsOf(entry) {
		if g != current && !g.withdrawn {
			g.withdrawn, g.ready = true, false
			n.giveUp(g, e.At)
		}
	}
	if !adopted.stands() {
		n.giveUp(adopted, e.At)
	}
}

func (n *naive) give(g *naiveGrant) {
	n.grants = append(n.grants, g)
	n.kept[g] = g.entry.amounts
	n.outcomes = append(n.outcomes, naiveOutcome{provider: g.provider, kind: "granted"})
	n.deal(naiveParty{g.provider, false}, naiveDealing{g.assigned, g.entry.requester, g.name(), "try", 0})
}

func (n *naive) giveUp(g *naiveGrant, at time.Time) {
	n.deal(naiveParty{g.provider, false}, naiveDealing{at, g.entry.requester, g.name(), "end", 0})
	n.unanswered(g)
	g.left = g.left || !n.speaks(g.provider)
	g.leftToo = g.leftToo || !n.speaks(g.entry.requester) || g.entry.unclaimed
	if left := n.both(g.entry); len(left) == 1 {
		g.entry.amounts = n.kept[left[0]]
	}
}

func (n *naive) forget(f *Forget) {
	for _, name := range f.Names {
		for i, e := range n.entries {
			if e.name == name {
				n.entries = append(n.entries[:i:i], n.entries[i+1:]...)
				break
			}
		}
		var kept []*naiveGrant
		for _, g := range n.grants {
			if g.entry.name != name {
				kept = append(kept, g)
			}
		}
		n.grants = kept
	}
	for _, k := range f.Keys {
		delete(n.tombs, k)
	}
}

// differs says where a State tells something else than this book.
func (n *naive) differs(s *State) error {
	for id := range n.clusters {
		if err := n.clusterDiffers(s, id); err != nil {
			return fmt.Errorf("cluster %s: %w", id, err)
		}
	}
	if got := len(s.keys) + len(s.shut) + len(s.quotes.keys); got != len(n.entries)+len(n.tombs)+n.remembered() {
		return fmt.Errorf("%d keys, want %d of reservations, %d of quotes and %d shut", got, len(n.entries), n.remembered(), len(n.tombs))
	}
	for k := range n.tombs {
		if r, isShut := s.ByKey(k.Requester, k.Key); r != nil || !isShut {
			return fmt.Errorf("key %v is not shut", k)
		}
	}
	if len(s.reservations) != len(n.entries) {
		return fmt.Errorf("%d reservations, want %d", len(s.reservations), len(n.entries))
	}
	for _, e := range n.entries {
		r, _ := s.ByKey(e.requester, e.key)
		if r == nil || r != s.Reservation(e.name) {
			return fmt.Errorf("reservation %s is not found by its key", e.name)
		}
		if r.Unclaimed != e.unclaimed || r.EndReason != e.end || !r.Until.Equal(e.until) || s.Over(r) != n.over(e) {
			return fmt.Errorf("reservation %s: %+v, want %+v", e.name, r, e)
		}
		if waits := e.end != "" && !n.over(e) && !(e.closed && n.allLeft(e)); (s.Phase(r) == Releasing) != waits {
			return fmt.Errorf("reservation %s is %s, want one that waits: %t", e.name, s.Phase(r), waits)
		}
		if standing := n.both(e); len(standing) > 2 || len(standing) > 0 && r.Provider != standing[len(standing)-1].provider {
			return fmt.Errorf("reservation %s is on %s, and these stand: %+v", e.name, r.Provider, standing)
		}
		if !r.Amounts.Equal(e.amounts) || (r.Pending == nil) != (e.asked == nil) {
			return fmt.Errorf("reservation %s: %v and %+v, want %v and %+v", e.name, r.Amounts, r.Pending, e.amounts, e.asked)
		}
	}
	if err := errors.Join(n.queueDiffers(s), n.holdsDiffer(s)); err != nil {
		return err
	}
	seen := map[string]int{}
	for _, g := range n.grants {
		seen[g.entry.name]++
		if err := g.differs(s); err != nil {
			return fmt.Errorf("placement %s: %w", g.name(), err)
		}
	}
	for name, want := range seen {
		if got := len(s.Reservation(name).Placements); got != want {
			return fmt.Errorf("reservation %s: %d placements, want %d", name, got, want)
		}
	}
	return nil
}

func (n *naive) clusterDiffers(s *State, id string) error {
	c := s.Cluster(id)
	if c == nil {
		return errors.New("is not in the book")
	}
	if want := n.clusters[id].since; !c.AgentSince.Equal(want) || s.HasAgent(id) == want.IsZero() {
		return fmt.Errorf("agent since %v, want %v", c.AgentSince, want)
	}
	if want := n.clusters[id].lost; !c.LostSince.Equal(want) {
		return fmt.Errorf("lost since %v, want %v", c.LostSince, want)
	}
	if want := n.restored && n.speaks(id) && n.clusters[id].announced != n.lineage; s.Awaits(id) != want {
		return fmt.Errorf("awaited: %v, want %v", s.Awaits(id), want)
	}
	if err := errors.Join(n.recordDiffers(s, id), n.conductDiffers(s, id)); err != nil {
		return err
	}
	held, claimed, free := c.Held(), c.Claimed(), c.Available()
	for _, resource := range resources {
		wantClaimed := n.claimed(id, resource)
		if got := claimed[resource]; got != wantClaimed {
			return fmt.Errorf("claimed %d of %s, want %d", got, resource, wantClaimed)
		}
		if got, want := held[resource], n.held(id, resource); got != want {
			return fmt.Errorf("held %d of %s, want %d", got, resource, want)
		}
		if got, want := free[resource], n.freeBeside(wantClaimed, id, resource); got != want || got < 0 {
			return fmt.Errorf("available %d of %s, want %d", got, resource, want)
		}
	}
	return nil
}

func (g *naiveGrant) differs(s *State) error {
	r := s.Reservation(g.entry.name)
	p := r.Placement(g.number)
	if p == nil {
		return errors.New("is not in the book")
	}
	got := naiveGrant{
		entry: g.entry, number: p.Number, provider: p.Provider, assigned: p.AssignedAt.Time(), acked: p.AcknowledgedAt.Time(),
		ready: p.Ready, readyOnce: p.EverReady, withdrawn: p.Withdrawn != "", left: p.ProviderGone, leftToo: p.ConsumerGone,
		lost: p.Withdrawn == lost, recalled: g.recalled, // see recallsDiffer
	}
	if got != *g {
		return fmt.Errorf("%+v, want %+v", got, *g)
	}
	want := Release
	switch {
	case g.stands():
		want = Hold
	case g.left && g.leftToo:
		want = Ended
	}
	if instruction := s.Instruction(r, p); instruction != want {
		return fmt.Errorf("instruction %s, want %s", instruction, want)
	}
	return nil
}
