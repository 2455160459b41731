package whatif

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Course is the sequence of states that one reservation goes through in a Simulation.
type Course struct {
	Reservation, Requester string
	// Object is the Reservation in which the capacity was requested, nil if an agent requested it.
	Object  *ledger.ObjectRef
	Amounts quantity.Amounts
	// Steps begins with the present state, unless the plan itself requests the reservation.
	Steps []Step
}

// Step is a state of a reservation that lasts until the next step.
type Step struct {
	At time.Time
	// Provider serves the reservation, "" if it waits or has ended.
	Provider string
	// PerHour is the price in Currency, without the resources in NotPriced. Currency is "" if there is no price.
	PerHour   money.Price
	Currency  string
	NotPriced []corev1.ResourceName
	// Waits is true while the reservation is in the queue. Ended is the reason why the reservation
	// ended, "" if it has not.
	Waits bool
	Ended ledger.EndReason
	// Why explains to people why the reservation waits or has ended. It is "" in the present
	// state.
	Why string
}

// isSame reports whether two steps are the same state. It does not compare the times at which they
// began.
func (a *Step) isSame(other *Step) bool {
	return a.Provider == other.Provider && a.Waits == other.Waits && a.Ended == other.Ended
}

// AddStep adds the present state of a reservation to its course, if the state is new.
func (s *Simulation) AddStep(r *ledger.Reservation) {
	s.changed = append(s.changed, r.Name)
	if term.HasNoStandingPlacement(r) {
		return // a later event at this instant gives it a placement, puts it into the queue or ends it
	}
	c := s.courses[r.Name]
	if c == nil {
		c = &Course{Reservation: r.Name, Requester: r.Requester, Object: r.Object, Amounts: r.Amounts}
		s.courses[r.Name] = c
	}
	step := s.stepOf(r)
	if n := len(c.Steps); n > 0 && c.Steps[n-1].isSame(&step) {
		return
	}
	switch {
	case !s.started:
	case step.Waits:
		step.Why = s.broker.DescribeWait(r)
	case step.Ended != "":
		step.Why = term.EndOf(r)
	}
	c.Steps = append(c.Steps, step)
}

func (s *Simulation) stepOf(r *ledger.Reservation) Step {
	step := Step{At: s.now}
	switch {
	case r.EndReason != "":
		step.Ended = r.EndReason
	case r.Waiting != nil:
		step.Waits = true
	default:
		p := r.Serving()
		step.Provider = p.Provider
		if p.Price != nil {
			step.PerHour, step.Currency, step.NotPriced = p.Price.PerHour(r.Amounts, requirements.DataBytes(r.Demands().Data)), p.Price.Currency, p.Price.NotPriced
		}
	}
	return step
}

// CourseOf returns the course of a reservation, without states that ended at the moment they began.
// It returns nil if the book does not have the reservation.
func (s *Simulation) CourseOf(name string) *Course {
	known := s.courses[name]
	if known == nil {
		return nil
	}
	c := *known
	c.Steps = nil
	for i := range known.Steps {
		step := known.Steps[i]
		// The first step is the present, which is part of the course even if it ends at once.
		if n := len(c.Steps); n > 1 && c.Steps[n-1].At.Equal(step.At) {
			c.Steps = c.Steps[:n-1]
		}
		if n := len(c.Steps); n == 0 || !c.Steps[n-1].isSame(&step) {
			c.Steps = append(c.Steps, step)
		}
	}
	return &c
}

// Affected is a reservation whose course differs with and without a plan.
type Affected struct {
	Without, With *Course
}

// AffectedBy compares two copies of the same book after Run: s without a plan, planned with it. It
// returns the reservations in both whose courses differ, sorted by name.
func (s *Simulation) AffectedBy(planned *Simulation) []Affected {
	var out []Affected
	for name := range planned.courses {
		without, with := s.CourseOf(name), planned.CourseOf(name)
		if without != nil && !slices.EqualFunc(without.Steps, with.Steps, func(a, b Step) bool { return a.At.Equal(b.At) && a.isSame(&b) }) {
			out = append(out, Affected{without, with})
		}
	}
	slices.SortFunc(out, func(a, b Affected) int { return cmp.Compare(a.With.Reservation, b.With.Reservation) })
	return out
}

// Totals sums up the reservations and the capacity in a Simulation.
type Totals struct {
	// Served is the number of reservations that a cluster serves, and Waiting is the length of the
	// queue.
	Served, Waiting int
	// PerHour is the hourly cost of the served reservations, by currency. NotPriced is how many of them
	// have resources without a price.
	PerHour   map[string]money.Price
	NotPriced int
	// Lendable is the sum of the lendable amounts of all clusters that can get new reservations. Free
	// is the unreserved part of it.
	Lendable, Free quantity.Amounts
}

// Totals returns the sums at the current time of the simulation.
func (s *Simulation) Totals() Totals {
	t := Totals{PerHour: map[string]money.Price{}, Lendable: quantity.Amounts{}, Free: quantity.Amounts{}}
	s.broker.Book().Reservations(func(r *ledger.Reservation) {
		step := s.stepOf(r)
		switch {
		case step.Waits:
			t.Waiting++
		case step.Provider != "":
			t.Served++
			if step.Currency == "" || len(step.NotPriced) > 0 {
				t.NotPriced++
			}
			if step.Currency != "" {
				t.PerHour[step.Currency] = t.PerHour[step.Currency].Plus(step.PerHour)
			}
		}
	})
	s.broker.Book().Clusters(func(c *ledger.Cluster) {
		if s.broker.Cordon(c.ClusterID) != "" || !s.broker.IsOpen(c.ClusterID) {
			return
		}
		free := s.broker.OpenCapacity(c)
		for name, whole := range c.Lendable() {
			t.Lendable[name] += max(whole, 0)
			t.Free[name] += max(free[name], 0)
		}
	})
	return t
}
