package broker

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// term is the memory of the broker while it holds the journal: from opening it
// until the first failure. Broker.mu guards all of it.
type term struct {
	b       *Broker
	state   *ledger.State
	market  *decision.Market
	journal *journal.Journal
	// newest is the time of the newest event that was replayed.
	newest time.Time
	// durable is the position of an event up to which everything is known to be stored.
	// It needs no lock.
	durable atomic.Uint64
	// last is the newest commit; nil before the first.
	last *journal.Commit
	// began is when the term began: what was heard before counts as heard then.
	began time.Time
	// presence is what is known of each cluster beyond the ledger.
	presence map[string]*presence
	// news is, per cluster, what changed for it.
	news map[string]*news
	due  deadlines
	// waiters are who waits for capacity.
	waiters waiters
	// holders are who may be told to make room for them.
	holders holders
	objects objects
	// healAgain is, by reservation, when another provider is looked for again.
	healAgain map[string]time.Time
	// exceeding is, by placement, an excess that was reported within a minute of the last.
	exceeding map[string]*ledger.Exceed
	// healHurried is when that was, or is to be, done for who had more room; healTried is
	// whether it was done for anybody since that was set.
	healHurried time.Time
	healTried   bool
	// healRefresh is from when on all offers are written down again for its sake.
	healRefresh time.Time
	// listenUntil is until when nothing is granted on clusters that were not met; zero
	// where the journal is known to be the present one.
	listenUntil time.Time
	// shaped are the clusters whose histogram of nodes in the market is out of date.
	shaped clusterSet
	// recovery is what follows a restored state.
	recovery recovery
	// explained is the newest explanation.
	explained explained
	// accounts are what members use, by cluster, payer is the one whose call is carried out.
	accounts map[string]*account
	payer    string
}

// presence of one cluster.
type presence struct {
	heard           time.Time
	epoch, sequence int64
	// pending is an offer that differs too little from the ledger's to be worth a
	// record before somebody wants to reserve here.
	pending *ledger.Offer
	phase   ClusterPhase
	// leap is what grew implausibly at an instant, see doubts.
	leap  string
	leapt time.Time
	// met is whether it has shown, in this term, what it knows.
	met bool
	// fetched is when it first asked for its instructions in this term, zero before.
	fetched time.Time
	// open is whether it took new reservations when it was judged last.
	open bool
	// links are what it told of its ways to providers, endpoint is the address that others
	// told of theirs to it.
	links    map[string]link
	endpoint string
	// raw is what it had left when that was looked at last, below zero where it promised
	// more than it has, free what of it is for everybody.
	raw, free quantity.Amounts
	// standing and excess are the pauses in force, as decisions know them; nil for none.
	standing *decision.Standing
	excess   *decision.Excess
}

func newTerm(b *Broker, book *book, j *journal.Journal) *term {
	return &term{
		b: b, state: book.state, journal: j, newest: book.newest,
		market:   decision.NewMarket(),
		presence: map[string]*presence{},
		news:     map[string]*news{},
		due:      newDeadlines(),
		shaped:   clusterSet{},
		recovery: newRecovery(),
		waiters:  newWaiters(),
		holders:  newHolders(),
		objects:  objects{},

		healAgain: map[string]time.Time{},
		exceeding: map[string]*ledger.Exceed{},
		accounts:  map[string]*account{},
	}
}

// start derives everything that is not in the ledger from it.
func (t *term) start() {
	t.began = t.now()
	t.market.SetRates(t.b.config.Rates)
	t.market.SetBudget(t.b.config.Budget.ResourceNames)
	t.state.Clusters(func(c *ledger.Cluster) {
		p := t.presenceOf(c.ClusterID)
		p.heard = c.OfferedAt
		if c.Agent {
			p.heard = t.began
		}
		t.list(c)
	})
	var all []*ledger.Reservation
	t.state.Reservations(func(r *ledger.Reservation) { all = append(all, r) })
	slices.SortFunc(all, func(a, b *ledger.Reservation) int { return int(int64(a.Changed) - int64(b.Changed)) })
	for _, r := range all {
		t.touched(r)
	}
	t.countAll()
	t.reviewHolds()
	t.startLineage()
	if t.b.configured {
		t.setCeilings()
	}
	t.wake()
}

// startLineage has a cursor to tell, and looks whether this process knows more than the
// journal that it has read.
func (t *term) startLineage() {
	if t.state.Branch() == nil {
		if err := t.record(ledger.Event{Change: firstLineage()}); err != nil {
			t.b.opts.Log.Error(err, "no lineage could be begun")
		}
		return
	}
	t.noteDurable(t.state.Position())
	t.listen(t.newest)
	t.await()
	if meant, position := read(t.b.newest, t.state); meant == lost {
		t.fork(position, bySelf)
	}
}

func (t *term) noteDurable(position uint64) {
	for {
		known := t.durable.Load()
		if position <= known || t.durable.CompareAndSwap(known, position) {
			return
		}
	}
}

func (t *term) now() time.Time { return t.b.opts.Now().UTC() }

func (t *term) presenceOf(clusterID string) *presence {
	p := t.presence[clusterID]
	if p == nil {
		p = &presence{}
		t.presence[clusterID] = p
	}
	return p
}

// record puts an event into the journal's queue and into the ledger, and brings
// everything derived from the ledger up to date.
func (t *term) record(e ledger.Event) error {
	e.At = t.now()
	checked, err := t.state.Check(&e)
	if err != nil {
		return err
	}
	data, err := e.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	if len(data) > journal.MaxRecordBytes {
		return &tooLarge{len(data)}
	}
	commit := t.journal.Append(data)
	if commit.Position() == 0 {
		return errUnavailable()
	}
	t.charge(&e, len(data))
	fresh := t.state.Reservation(e.Reservation()) == nil
	t.uncount(&e)
	t.last = commit
	victims := t.state.Victims(t.state.Reservation(e.Reservation()))
	checked.Apply(commit.Position())
	t.count(&e, fresh)
	t.follow(&e, append(victims, t.state.Victims(t.state.Reservation(e.Reservation()))...))
	return nil
}

// touchAll has everybody be told who has reserved something of a cluster.
func (t *term) touchAll(c *ledger.Cluster) {
	for _, name := range c.Reservations() {
		t.touched(t.state.Reservation(name))
	}
}

// follow brings what is derived from the ledger up to date after an event. Victims are
// those that made room for its reservation before.
//
//nolint:gocyclo // a case for every kind of event
func (t *term) follow(e *ledger.Event, victims []*ledger.Reservation) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		c := t.state.Cluster(change.ClusterID)
		t.list(c)
		if c.Agent && c.AgentSince.Equal(e.At) {
			t.touchAll(c)
		}
		if t.state.Awaits(change.ClusterID) {
			t.hold(change.ClusterID)
		}
		t.b.feed.cluster(change.ClusterID)
	case *ledger.Forget:
		for _, name := range change.Names {
			t.b.feed.reservation(name)
			delete(t.healAgain, name)
		}
	case *ledger.Usage:
		t.list(t.state.Cluster(change.ClusterID))
		t.b.feed.cluster(change.ClusterID)
	case *ledger.Reach:
		t.touchAll(t.state.Cluster(change.ClusterID))
	case *ledger.Exceed:
		r := t.state.Reservation(change.Name)
		t.touched(r)
		t.judgeRequester(r.Requester)
	case *ledger.LiftPauses:
		t.judge(change.ClusterID)
	case *ledger.Keep:
		t.followHold(t.state.Quote(change.Name))
	case *ledger.LetGo:
		t.followHold(t.state.Quote(change.Name))
	case *ledger.Ceilings:
		t.state.Clusters(t.list)
	case *ledger.Lineage:
		// Quotes may have held something before.
		t.state.Clusters(func(c *ledger.Cluster) { t.relist(c.ClusterID) })
	case *ledger.Shut, *ledger.Announced:
	default:
		r := t.state.Reservation(e.Reservation())
		_, withdrawn := change.(*ledger.Withdraw)
		_, gone := change.(*ledger.ProviderGone)
		_, ended := change.(*ledger.End)
		_, edited := change.(*ledger.Edit)
		if withdrawn {
			delete(t.healAgain, r.Name) // the next one can be tried at once
		}
		t.touched(r)
		t.affect(&r.Reserve)
		for _, v := range victims {
			t.touched(v)
		}
		if gone {
			t.judgeRequester(r.Requester) // it may have kept within its grant
		}
		leaves := gone || withdrawn || ended
		for i := range r.Placements {
			p := &r.Placements[i]
			t.relist(p.Provider)
			if leaves && p.ProviderGone {
				// Who waited for it to go may look elsewhere, be anything free now or not.
				t.grew(p.Provider)
			}
		}
		if edited && r.Waiting != nil {
			t.allGrew() // what it waits for now may be there
		}
	}
}

// touched tells everyone concerned that a reservation changed.
func (t *term) touched(r *ledger.Reservation) {
	t.b.feed.reservation(r.Name)
	t.lineUp(r)
	t.noteHolder(r)
	t.noteObject(r)
	t.due.set(r.Name, t.deadline(r))
	t.newsOf(r.Requester).add(r, t.state)
	for i := range r.Placements {
		if p := r.Placements[i].Provider; p != r.Requester {
			t.newsOf(p).add(r, t.state)
		}
	}
}
