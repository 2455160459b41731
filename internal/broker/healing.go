package broker

import (
	"errors"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// healEvery is when another provider is looked for again where there was none.
	healEvery = 30 * time.Second
	// healPause is how often that is done for who has room now, at most: as many may wait
	// as a lost provider served.
	healPause = 5 * time.Second
)

// healBy is when the next step of a reservation's healing is due, zero if none is.
//
// Agents could not be heard while the broker was away: nothing is taken from a provider
// before it had the time to speak to this one. One that called a placement back has spoken.
func (t *term) healBy(r *ledger.Reservation) time.Time {
	switch t.state.Healing(r) {
	case ledger.HealNothing:
		return time.Time{}
	case ledger.HealBegin:
		heard := t.began
		if r.CalledBack() == nil {
			heard = t.began.Add(staleAfter)
		}
		return later(later(heard, t.settling()), t.healAgain[r.Name])
	default:
		return t.now()
	}
}

// heals is whether a step of healing comes before anything else that is due.
func (t *term) heals(r *ledger.Reservation) bool {
	by, otherwise := t.healBy(r), t.deadlineOf(r)
	return !by.IsZero() && !by.After(t.now()) && (otherwise.IsZero() || otherwise.After(t.now()))
}

// heal does the next step. All of them follow from the book: a broker that stopped
// between two of them goes on.
func (t *term) heal(r *ledger.Reservation) error {
	p := r.Current()
	switch t.state.Healing(r) {
	case ledger.HealBegin:
		return t.beginHealing(r)
	case ledger.HealFinish:
		older := r.Beside(p)
		return t.leave(r, older, r.WhyLeft(older))
	case ledger.HealReturn:
		return t.leave(r, p, ledger.ProviderBack)
	}
	return nil
}

// beginHealing grants a placement beside the one that is to be left. Where no cluster has
// room everything stays as it is.
func (t *term) beginHealing(r *ledger.Reservation) error {
	left := r.Current()
	t.healAgain[r.Name], t.healTried = t.now().Add(healEvery), true
	q, tried := again(r)
	if may, err := t.mayHeal(r, q, tried); !may || err != nil {
		return err
	}
	c, err := t.choose(q, tried)
	if fault.ReasonOf(err) == fault.NoCandidate {
		return nil // it was taken for who waits
	}
	if err != nil {
		return err
	}
	err = t.record(ledger.Event{Change: &ledger.Heal{Name: r.Name, Provider: c.winner, Explanation: c.explanation}})
	if errors.Is(err, ledger.ErrTaken) {
		return nil // the decision changed what it was made for
	}
	if err == nil {
		t.b.opts.Log.Info("another provider gets a placement beside the one that is left", "reservation", r.Name, "left", left.Provider,
			"reason", r.WhyLeft(left), "target", c.winner)
	}
	return err
}

// mayHeal is whether there is somebody to take a reservation over, and somebody to peer
// with: a requester that is silent too would let every provider try in vain. It spares
// the reasons of a refusal that nobody reads, of as many reservations as the lost
// provider has.
func (t *term) mayHeal(r *ledger.Reservation, q *Request, tried []string) (bool, error) {
	if t.state.HasAgent(r.Requester) && t.presenceOf(r.Requester).phase != ClusterActive {
		return false, nil
	}
	if _, ok := t.pick(t.sought(q, tried), q.Target); ok || t.now().Before(t.healRefresh) {
		return ok, nil
	}
	t.healRefresh = t.now().Add(time.Second)
	refreshed, err := t.refreshAll()
	if !refreshed || err != nil {
		return false, err
	}
	_, ok := t.pick(t.sought(q, tried), q.Target)
	return ok, nil
}

// hurryHealing has another provider looked for again where there was none: some cluster
// may have room now.
func (t *term) hurryHealing() {
	if !t.healTried {
		return // it will be
	}
	t.healTried = false
	if !t.healHurried.After(t.now()) {
		t.healHurried = later(t.now(), t.healHurried.Add(healPause))
	}
	for name, again := range t.healAgain {
		if again.After(t.healHurried) {
			t.healAgain[name] = t.healHurried
			t.due.set(name, t.deadline(t.state.Reservation(name)))
		}
	}
}

// leave gives one of two placements up. Its provider holds it until it has confirmed.
func (t *term) leave(r *ledger.Reservation, p *ledger.Placement, why string) error {
	t.b.opts.Log.Info("one of two placements is given up", "reservation", r.Name, "from", p.Provider, "stays", r.Beside(p).Provider, "reason", why)
	return t.record(ledger.Event{Change: &ledger.Withdraw{
		PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}, Reason: why,
	}})
}

// lostProvider is the provider that a reservation counts on and that is silent, and
// when it was heard last; "" if none is. Where two serve it, it is the older one first.
func (t *term) lostProvider(r *ledger.Reservation) (string, time.Time) {
	for i := range r.Placements {
		p := &r.Placements[i]
		if since := t.state.Cluster(p.Provider).LostSince; r.Stands(p) && !since.IsZero() {
			return p.Provider, since
		}
	}
	return "", time.Time{}
}

// healingMessage says what happens while two placements stand; "" else.
func (t *term) healingMessage(r *ledger.Reservation) string {
	p := r.Current()
	older := r.Beside(p)
	if older == nil {
		return ""
	}
	return fmt.Sprintf("nothing is heard of %s; %s is to take over, and what is on %s stays until the virtual node %s is Ready",
		older.Provider, p.Provider, older.Provider, ledger.PlacementName(r.Name, p.Number))
}
