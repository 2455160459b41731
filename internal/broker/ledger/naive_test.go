package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// naive keeps the same book the slow way: it stores all events in lists and recounts everything
// for each question. It shares no arithmetic and no rule with State.
type naive struct {
	clusters map[string]*naiveCluster
	grants   []*naiveGrant
	entries  []*naiveEntry
	tombs    map[CloseKey]bool
	queue    []*naiveWait
	quotes   []*naiveHold
	ceilings quantity.Ratios
	// kept holds the amounts that the provider of a grant keeps, as far as the book knows.
	kept map[*naiveGrant]quantity.Amounts
	// outcomes holds the outcomes of grants. why holds the reasons for which grants were withdrawn.
	outcomes []naiveOutcome
	why      map[*naiveGrant]string
	// reputations holds what the counterparts of clusters experienced, by role.
	reputations map[naiveParty]*reputation.Reputation
	// exceeded holds how far a requester exceeded a grant.
	exceeded map[*naiveGrant]naiveExcess
	// lineage is the ID of the current lineage; "" before the first. restored is true if it is not
	// the first.
	lineage  string
	restored bool
	// prices holds the prices of grants, heldPrices those of quotes, and periods the metered
	// periods of entries. latest is the time of the last event.
	prices     map[*naiveGrant]*naivePrice
	heldPrices map[string]*naivePrice
	periods    map[*naiveEntry][]naivePeriod
	latest     time.Time
	actors     map[string]naiveActors
	settings   map[string]string
}

type naiveCluster struct {
	last  Offer
	since time.Time // when its agent first sent an offer; zero before that
	// announced is the lineage in which the cluster last announced its holdings.
	announced string
	lost      time.Time
	// lifted is the mark with which its pauses were last lifted.
	lifted string
}

type naiveEntry struct {
	name, requester, key string
	amounts              quantity.Amounts
	until                time.Time
	duration             time.Duration
	end                  EndReason
	unclaimed, closed    bool
	wants                naiveWants
	generation           int64
	// asked is a change of amounts without answer; nil if there is none.
	asked *naiveAsked
}

// naiveWants is how an entry's requester wants to be served, besides amounts and duration.
type naiveWants struct {
	tenant, target string
	priority       int32
	patient, queue bool
	wait           time.Duration
	group          string
}

func wantsOf(r *Request) naiveWants {
	return naiveWants{
		tenant: r.Tenant, target: r.Target, priority: r.Priority, patient: r.Patient, queue: r.Queue, wait: r.Wait, group: r.Demands().Group,
	}
}

type naiveGrant struct {
	entry    *naiveEntry
	number   int32
	provider string
	assigned time.Time
	acked    time.Time
	// connecting is when the requester reported that only the network is missing, or that the node
	// is no longer Ready.
	connecting time.Time
	// outage is since when the node was not Ready before it became Ready again, at readyAt.
	outage, readyAt time.Time
	ready           bool
	readyOnce       bool
	withdrawn       bool
	left            bool // the provider has confirmed that nothing is left
	leftToo         bool // the consumer has confirmed that nothing is left
	lost            bool // nothing but the number of the grant is known
	// recalled is the end of the recall of the grant; zero if it is not recalled.
	recalled time.Time
	// drained is when the drain that caused the recall began; zero if the provider recalled the
	// grant.
	drained time.Time
	// idle is the time since which no pod uses the grant; zero if none was recorded. idleEnds is
	// when the grant may be released as idle.
	idle, idleEnds time.Time
}

func newNaive() *naive {
	return &naive{actors: map[string]naiveActors{}, settings: map[string]string{}, clusters: map[string]*naiveCluster{}, tombs: map[CloseKey]bool{}, kept: map[*naiveGrant]quantity.Amounts{}, why: map[*naiveGrant]string{}, reputations: map[naiveParty]*reputation.Reputation{}, exceeded: map[*naiveGrant]naiveExcess{}, prices: map[*naiveGrant]*naivePrice{}, heldPrices: map[string]*naivePrice{}, periods: map[*naiveEntry][]naivePeriod{}}
}

func (g *naiveGrant) isStanding() bool { return g.entry.end == "" && !g.withdrawn }

func (g *naiveGrant) placementName() string { return fmt.Sprint(g.entry.name, "-", g.number) }

func (n *naive) hasAgent(cluster string) bool {
	c := n.clusters[cluster]
	return c != nil && !c.since.IsZero()
}

func (n *naive) findEntry(name string) *naiveEntry {
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

// newestNumber returns the number of an entry's newest grant; 0 if there is none.
func (n *naive) newestNumber(entry *naiveEntry) int32 {
	all := n.grantsOf(entry)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].number
}

func (n *naive) findGrant(ref PlacementRef) *naiveGrant {
	for _, g := range n.grants {
		if g.entry.name == ref.Name && g.number == ref.Placement {
			return g
		}
	}
	return nil
}

// sumClaimed returns the sum of max(held, used) over the placements on a cluster, including usage
// without a hold, plus what quotes hold.
func (n *naive) sumClaimed(cluster string, resource corev1.ResourceName) int64 {
	used := n.clusters[cluster].last.Used
	var sum int64
	for _, u := range used {
		sum += u[resource]
	}
	for _, g := range n.grants {
		if g.provider == cluster && !g.left {
			name := g.placementName()
			sum += max(n.mayHold(g, resource)-used[name][resource], 0)
		}
	}
	return sum + n.sumQuoted(cluster, resource)
}

func (n *naive) sumHeld(cluster string, resource corev1.ResourceName) int64 {
	var sum int64
	for _, g := range n.grants {
		if g.provider == cluster && !g.left {
			sum += n.mayHold(g, resource)
		}
	}
	return sum + n.sumQuoted(cluster, resource)
}

func (n *naive) freeAmount(cluster string, resource corev1.ResourceName) int64 {
	return n.freeBeside(n.sumClaimed(cluster, resource), cluster, resource)
}

func (n *naive) freeBeside(claimed int64, cluster string, resource corev1.ResourceName) int64 {
	last := n.clusters[cluster].last
	return max(0, n.stretchAmount(last.Allocatable[resource], resource, &last)-last.Allocated[resource]-claimed)
}

// refusalsOf returns all reasons against an event. State may refuse the event with any of them.
func (n *naive) refusalsOf(e *Event) []error {
	var no []error
	refuse := func(when bool, reason error) {
		if when {
			no = append(no, reason)
		}
	}
	refuse(len(e.By) > 400, ErrMalformed)
	onGrant := func(ref PlacementRef, want bool, otherwise error) {
		g := n.findGrant(ref)
		refuse(g == nil, ErrUnknown)
		refuse(g != nil && g.isStanding() != want, otherwise)
	}
	onLive := func(name string) *naiveEntry {
		entry := n.findEntry(name)
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
			refuse(want > n.freeAmount(provider, resource), ErrOverbooked)
		}
	}
	refuse(n.refusesPrice(e), ErrMalformed)
	switch change := e.Change.(type) {
	case *Offer:
		refuse(change.ClusterID == "", ErrMalformed)
		for _, u := range change.Used {
			refuse(u[corev1.ResourceCPU] < 0, ErrMalformed)
		}
	case *Reserve:
		refuse(n.findEntry(change.Name) != nil || n.keyUsed(change.Requester, change.Key), ErrTaken)
		refuse(change.Amounts.IsZero(), ErrMalformed)
		fits(change.Provider, change.Amounts)
	case *Move:
		if entry := onLive(change.Name); entry != nil {
			refuse(n.waitOf(entry) != nil, ErrTaken)
			for _, g := range n.grantsOf(entry) {
				refuse(g.isStanding(), ErrTaken)
			}
			fits(change.Provider, entry.amounts)
		}
	case *Acknowledge:
		onGrant(change.PlacementRef, true, ErrOver)
	case *NodeReady:
		onGrant(change.PlacementRef, true, ErrOver)
	case *Connect:
		onGrant(change.PlacementRef, true, ErrOver)
		g := n.findGrant(change.PlacementRef)
		refuse(g != nil && (g.readyOnce || !g.connecting.IsZero()), ErrTaken)
	case *Withdraw:
		refuse(change.Reason == "", ErrMalformed)
		onGrant(change.PlacementRef, true, ErrOver)
	case *ProviderGone:
		onGrant(change.PlacementRef, false, ErrTaken)
	case *ConsumerGone:
		onGrant(change.PlacementRef, false, ErrTaken)
	case *End:
		refuse(change.Reason == "", ErrMalformed)
		onLive(change.Name)
	case *Renew:
		onLive(change.Name)
		no = append(no, n.refusalsToReprice(change)...)
	case *Edit:
		entry := onLive(change.Name)
		refuse(entry != nil && change.Generation <= entry.generation, ErrTaken)
		no = append(no, n.refusalsToChange(change, entry)...)
	case *Settle:
		no = append(no, n.refusalsToSettle(change)...)
	case *Silence:
		c := n.clusters[change.ClusterID]
		refuse(c == nil, ErrUnknown)
		refuse(c != nil && c.lost.IsZero() == change.Since.IsZero(), ErrTaken)
	case *Restate:
		no = append(no, n.refusalsToRestate(change)...)
	case *Heal:
		no = append(no, n.refusalsToHeal(change)...)
	case *Recall:
		no = append(no, n.refusalsToRecall(change)...)
	case *Idle:
		no = append(no, n.refusalsToIdle(change)...)
	case *Exceed:
		no = append(no, n.refusalsToExceed(change)...)
	case *LiftPauses:
		c := n.clusters[change.ClusterID]
		refuse(c == nil, ErrUnknown)
		refuse(change.Mark == "" || len(change.Mark) > 64, ErrMalformed)
		refuse(c != nil && c.lifted == change.Mark, ErrTaken)
	case *ForgetCluster:
		refuse(!n.hasAgent(change.ClusterID), ErrUnknown)
		refuse(n.isUsed(change.ClusterID), ErrTaken)
	case *Close:
		entry := n.findEntry(change.Name)
		refuse(entry == nil, ErrUnknown)
		refuse(entry != nil && (entry.end == "" || entry.closed || n.isOver(entry) || !n.allLeft(entry)), ErrTaken)
	case *CloseKey:
		refuse(n.keyUsed(change.Requester, change.Key), ErrTaken)
	case *Forget:
		for _, name := range change.Names {
			entry := n.findEntry(name)
			refuse(entry == nil, ErrUnknown)
			refuse(entry != nil && !n.isOver(entry), ErrTaken)
		}
	case *Configure, *Observe:
	case *ClosePeriod:
		refuse(change.Period == "" || len(change.Hash) != 64, ErrMalformed)
	case *CloseBatch:
		refuse(change.Batch < 1 || change.Rows <= 0 || len(change.Hash) != 64, ErrMalformed)
	case *Lineage:
		l := change
		refuse(l.ID == "" || (n.lineage == "") != (l.Key != nil) || (n.lineage == "") != (l.By == ""), ErrMalformed)
	case *Announced:
		refuse(n.clusters[change.ClusterID] == nil, ErrUnknown)
	case *Adopt:
		no = append(no, n.refusalsToAdopt(change)...)
	case *Claim:
		if entry := onLive(change.Name); entry != nil {
			refuse(!entry.unclaimed || change.Request != nil && n.keyUsed(entry.requester, change.Request.Key), ErrTaken)
		}
	case *Enqueue, *Grant, *Preempt:
		no = append(no, n.refusalsOfQueue(e)...)
	case *HoldQuote, *TakeQuote, *EndQuote:
		no = append(no, n.refusalsOfHolds(e)...)
	default:
		refuse(true, ErrMalformed)
	}
	return no
}

func (n *naive) refusalsToAdopt(a *Adopt) (no []error) {
	if a.Amounts.IsZero() || a.Placement < 1 || a.Placement > 1_000_000 {
		no = append(no, ErrMalformed)
	}
	if n.clusters[a.Provider] == nil {
		no = append(no, ErrUnknown)
	}
	amounts, entry := a.Amounts, n.findEntry(a.Name)
	if entry != nil {
		amounts = entry.amounts
		if g := n.findGrant(a.PlacementRef); entry.requester != a.Requester || g != nil && !g.lost {
			no = append(no, ErrTaken)
		}
		if all := n.grantsOf(entry); len(all) > 0 && (all[0].number-a.Placement > 17 || a.Placement-n.newestNumber(entry) > 17) {
			no = append(no, ErrMalformed)
		}
	}
	for resource, amount := range amounts {
		if n.sumHeld(a.Provider, resource) > quantity.Limit-amount {
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
	return n.tombs[CloseKey{requester, key}]
}

func (n *naive) isOver(entry *naiveEntry) bool {
	for _, g := range n.grantsOf(entry) {
		if !g.left || !g.leftToo {
			return false
		}
	}
	return entry.end != ""
}

// allLeft reports whether every provider has confirmed that nothing of an entry is left.
func (n *naive) allLeft(entry *naiveEntry) bool {
	for _, g := range n.grantsOf(entry) {
		if !g.left {
			return false
		}
	}
	return true
}

// recordEvent stores an accepted event.
func (n *naive) recordEvent(e *Event) {
	n.noteActor(e)
	switch change := e.Change.(type) {
	case *Offer:
		c := n.clusters[change.ClusterID]
		if c == nil {
			c = &naiveCluster{}
			n.clusters[change.ClusterID] = c
		}
		c.last = *change
		if change.Agent && c.since.IsZero() {
			c.since = e.At
		}
	case *Reserve:
		r := change
		entry := &naiveEntry{name: r.Name, requester: r.Requester, key: r.Key, amounts: r.Amounts, until: r.Until, duration: r.Duration, wants: wantsOf(&r.Request)}
		n.entries = append(n.entries, entry)
		n.addGrant(&naiveGrant{entry: entry, number: 1, provider: r.Provider, assigned: e.At})
	case *Move:
		entry := n.findEntry(change.Name)
		number := n.newestNumber(entry) + 1
		n.addGrant(&naiveGrant{entry: entry, number: number, provider: change.Provider, assigned: e.At})
	case *Acknowledge:
		if g := n.findGrant(change.PlacementRef); g.acked.IsZero() {
			g.acked = e.At
			if !n.hasAgent(g.entry.requester) {
				n.noteGood(naiveParty{g.provider, false}, e.At, g, g.entry.requester)
			}
		}
	case *NodeReady:
		g := n.findGrant(change.PlacementRef)
		if change.Ready && !g.readyOnce {
			n.countDelivered(g, e.At)
		} else if change.Ready && !g.connecting.IsZero() {
			g.outage, g.readyAt = g.connecting, e.At
		}
		g.ready = change.Ready
		g.readyOnce = g.readyOnce || g.ready
		if g.ready {
			g.connecting = time.Time{}
		} else if g.readyOnce && g.connecting.IsZero() {
			g.connecting = e.At
			if !g.outage.IsZero() && e.At.Sub(g.readyAt) < time.Minute {
				g.connecting = g.outage
			}
		}
	case *Connect:
		n.findGrant(change.PlacementRef).connecting = e.At
	case *Withdraw:
		g := n.findGrant(change.PlacementRef)
		n.noteWithdrawn(g, e)
		g.withdrawn, g.ready = true, false
		n.giveUp(g)
	case *ProviderGone:
		g := n.findGrant(change.PlacementRef)
		if _, beyond := n.exceeded[g]; !beyond {
			n.noteGood(naiveParty{g.entry.requester, true}, e.At, g, g.provider)
		}
		g.left = true
	case *ConsumerGone:
		n.findGrant(change.PlacementRef).leftToo = true
	case *End:
		entry := n.findEntry(change.Name)
		entry.end = change.Reason
		for _, g := range n.grantsOf(entry) {
			n.giveUp(g)
		}
	case *Renew:
		n.findEntry(change.Name).until = change.Until
	case *Edit:
		entry := n.findEntry(change.Name)
		if w := n.waitOf(entry); w != nil {
			if w.hold += change.Duration - entry.duration; entry.duration == 0 || change.Duration == 0 {
				w.hold = change.Duration
			} else if w.hold < time.Second {
				w.hold = time.Second
			}
		}
		entry.until, entry.generation, entry.duration = change.Until, change.Generation, change.Duration
		n.changeAmounts(change, entry)
	case *Settle:
		n.settleAmounts(change)
	case *Configure:
		n.configure(change)
	case *Silence:
		n.clusters[change.ClusterID].lost = change.Since
	case *Restate:
		n.restateAmounts(change)
	case *Heal:
		entry := n.findEntry(change.Name)
		number := n.newestNumber(entry) + 1
		n.addGrant(&naiveGrant{entry: entry, number: number, provider: change.Provider, assigned: e.At})
	case *Recall:
		g := n.findGrant(change.PlacementRef)
		g.recalled, g.drained = change.Ends, change.Drained
	case *Idle:
		g := n.findGrant(change.PlacementRef)
		g.idle, g.idleEnds = change.Since, change.Ends
	case *Exceed:
		n.noteExcess(e)
	case *LiftPauses:
		n.clusters[change.ClusterID].lifted = change.Mark
		delete(n.reputations, naiveParty{change.ClusterID, false})
		delete(n.reputations, naiveParty{change.ClusterID, true})
	case *ForgetCluster:
		n.forgetAllOf(change.ClusterID)
	case *Close:
		n.findEntry(change.Name).closed = true
	case *CloseKey:
		n.tombs[*change] = true
	case *Forget:
		n.dropForgotten(change)
	case *Lineage:
		if n.lineage != "" {
			n.loseHolds()
		}
		n.lineage, n.restored = change.ID, change.By != ""
	case *Announced:
		n.clusters[change.ClusterID].announced = n.lineage
	case *Adopt:
		n.adoptGrant(e)
	case *Claim:
		entry := n.findEntry(change.Name)
		entry.unclaimed = false
		if change.Request != nil {
			entry.wants, entry.key = wantsOf(change.Request), change.Request.Key
		}
	case *Enqueue, *Grant, *Preempt:
		n.recordQueue(e)
	case *HoldQuote, *TakeQuote, *EndQuote:
		n.recordHolds(e)
	}
}

// isUsed reports whether a cluster provides for a standing grant or a held quote, or has requested
// a reservation or quote that has not ended.
func (n *naive) isUsed(id string) bool {
	for _, g := range n.grants {
		if g.provider == id && g.isStanding() {
			return true
		}
	}
	for _, e := range n.entries {
		if e.requester == id && e.end == "" {
			return true
		}
	}
	for _, h := range n.quotes {
		if (h.kept.Provider == id || h.kept.Requester == id) && h.ended == "" {
			return true
		}
	}
	return false
}

// forgetAllOf resets a cluster to one without an agent and without history. Nothing is left of its
// grants.
func (n *naive) forgetAllOf(id string) {
	n.clusters[id] = &naiveCluster{last: Offer{ClusterID: id}}
	for _, g := range n.grants {
		g.left = g.left || g.provider == id
		g.leftToo = g.leftToo || g.entry.requester == id
	}
	n.outcomes = slices.DeleteFunc(n.outcomes, func(o naiveOutcome) bool { return o.provider == id })
	delete(n.reputations, naiveParty{id, false})
	delete(n.reputations, naiveParty{id, true})
}

// adoptGrant adds the adopted grant, and lost grants for the missing numbers in between.
func (n *naive) adoptGrant(e *Event) {
	a := e.Change.(*Adopt)
	entry := n.findEntry(a.Name)
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
	adopted := n.findGrant(a.PlacementRef)
	*adopted = naiveGrant{entry: entry, number: a.Placement, provider: a.Provider, assigned: e.At, withdrawn: a.Withdrawn != ""}
	n.kept[adopted] = entry.amounts
	if a.Acknowledged {
		adopted.acked, adopted.readyOnce = e.At, true
	}
	if w := n.waitOf(entry); w != nil && adopted.isStanding() {
		w.left, entry.until = true, a.Until
	}
	current := n.newestGrant(entry)
	for _, g := range n.grantsOf(entry) {
		if g != current && !g.withdrawn {
			g.withdrawn, g.ready = true, false
			n.giveUp(g)
		}
	}
	if !adopted.isStanding() {
		n.giveUp(adopted)
	}
}

func (n *naive) addGrant(g *naiveGrant) {
	n.grants = append(n.grants, g)
	n.kept[g] = g.entry.amounts
	n.outcomes = append(n.outcomes, naiveOutcome{provider: g.provider, kind: "granted"})
	n.noteDealing(naiveParty{g.provider, false}, func(r *reputation.Reputation) *reputation.Reputation {
		return r.Granted(g.assigned, g.entry.requester)
	})
}

func (n *naive) giveUp(g *naiveGrant) {
	n.dropUnanswered(g)
	g.left = g.left || !n.hasAgent(g.provider)
	g.leftToo = g.leftToo || !n.hasAgent(g.entry.requester) || g.entry.unclaimed
	if left := n.standingGrants(g.entry); len(left) == 1 {
		g.entry.amounts = n.kept[left[0]]
	}
}

func (n *naive) dropForgotten(f *Forget) {
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

// compareTo returns an error if a State differs from this book.
func (n *naive) compareTo(s *State) error {
	if err := errors.Join(n.actorsDiffer(s), n.settingsDiffer(s)); err != nil {
		return err
	}
	for id := range n.clusters {
		if err := n.clusterDiffers(s, id); err != nil {
			return fmt.Errorf("cluster %s: %w", id, err)
		}
	}
	if got := len(s.keys) + len(s.closedKeys) + len(s.quotes.keys); got != len(n.entries)+len(n.tombs)+n.countRemembered() {
		return fmt.Errorf("%d keys, want %d of reservations, %d of quotes and %d shut", got, len(n.entries), n.countRemembered(), len(n.tombs))
	}
	for k := range n.tombs {
		if r, isClosed := s.ByKey(k.Requester, k.Key); r != nil || !isClosed {
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
		if r.Unclaimed != e.unclaimed || r.EndReason != e.end || !r.Until.Equal(e.until) || r.Over() != n.isOver(e) {
			return fmt.Errorf("reservation %s: %+v, want %+v", e.name, r, e)
		}
		if got := wantsOf(&r.Request); got != e.wants {
			return fmt.Errorf("reservation %s wants %+v, not %+v", e.name, got, e.wants)
		}
		if waits := e.end != "" && !n.isOver(e) && !(e.closed && n.allLeft(e)); (r.Phase() == Releasing) != waits {
			return fmt.Errorf("reservation %s is %s, want one that waits: %t", e.name, r.Phase(), waits)
		}
		if standing := n.standingGrants(e); len(standing) > 2 || len(standing) > 0 && r.Provider != standing[len(standing)-1].provider {
			return fmt.Errorf("reservation %s is on %s, and these stand: %+v", e.name, r.Provider, standing)
		}
		if !r.Amounts.Equal(e.amounts) || (r.Pending == nil) != (e.asked == nil) {
			return fmt.Errorf("reservation %s: %v and %+v, want %v and %+v", e.name, r.Amounts, r.Pending, e.amounts, e.asked)
		}
	}
	if err := errors.Join(n.queueDiffers(s), n.holdsDiffer(s), n.costsDiffer(s)); err != nil {
		return err
	}
	seen := map[string]int{}
	for _, g := range n.grants {
		seen[g.entry.name]++
		if err := g.compareTo(s); err != nil {
			return fmt.Errorf("placement %s: %w", g.placementName(), err)
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
	if want := n.restored && n.hasAgent(id) && n.clusters[id].announced != n.lineage; s.Awaits(id) != want {
		return fmt.Errorf("awaited: %v, want %v", s.Awaits(id), want)
	}
	if err := errors.Join(n.recordDiffers(s, id), n.reputationDiffers(s, id)); err != nil {
		return err
	}
	held, claimed, free := c.Held(), c.Claimed(), c.Available()
	for _, resource := range resources {
		wantClaimed := n.sumClaimed(id, resource)
		if got := claimed[resource]; got != wantClaimed {
			return fmt.Errorf("claimed %d of %s, want %d", got, resource, wantClaimed)
		}
		if got, want := held[resource], n.sumHeld(id, resource); got != want {
			return fmt.Errorf("held %d of %s, want %d", got, resource, want)
		}
		if got, want := free[resource], n.freeBeside(wantClaimed, id, resource); got != want || got < 0 {
			return fmt.Errorf("available %d of %s, want %d", got, resource, want)
		}
	}
	return nil
}

func (g *naiveGrant) compareTo(s *State) error {
	r := s.Reservation(g.entry.name)
	p := r.Placement(g.number)
	if p == nil {
		return errors.New("is not in the book")
	}
	got := naiveGrant{
		entry: g.entry, number: p.Number, provider: p.Provider, assigned: p.AssignedAt.Time(), acked: p.AcknowledgedAt.Time(), connecting: p.NodeSince.Time(),
		ready: p.Ready, readyOnce: p.EverReady, withdrawn: p.Withdrawn != "", left: p.ProviderGone, leftToo: p.ConsumerGone,
		lost: p.Withdrawn == withdrawnLost, recalled: g.recalled, drained: g.drained, // recallsDiffer compares recalled and drained
		idle: g.idle, idleEnds: g.idleEnds, // idleDiffers compares idle and idleEnds
		outage: g.outage, readyAt: g.readyAt, // they show in connecting
	}
	if got != *g {
		return fmt.Errorf("%+v, want %+v", got, *g)
	}
	want := Release
	switch {
	case g.isStanding():
		want = Hold
	case g.left && g.leftToo:
		want = Ended
	}
	if instruction := r.Instruction(p); instruction != want {
		return fmt.Errorf("instruction %s, want %s", instruction, want)
	}
	return nil
}
