package broker

import (
	"context"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// commitPlanFor calls commitPlan for a call of a member. It refuses the call if the member has used
// up its share of the journal, and charges the written records to the member. member is "" for a call that
// is charged to nobody.
func (b *Broker) commitPlanFor(ctx context.Context, member string, plan func(*session) error) error {
	return b.commitPlan(ctx, func(s *session) error {
		if member == "" {
			return plan(s)
		}
		if err := s.Limiter.CheckJournal(member); err != nil {
			return err
		}
		defer s.Limiter.Charge(member)()
		err := plan(s)
		return errTooLarge(member, err)
	})
}

// answerPlan returns the result of a plan once it is durable. payer is the member of commitPlanFor.
func answerPlan[T any](ctx context.Context, b *Broker, payer string, plan func(*session) (T, error)) (T, error) {
	var out, none T
	err := b.commitPlanFor(ctx, payer, func(s *session) (err error) {
		out, err = plan(s)
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}

// errTooLarge converts the error for an event that does not fit in a record to an answer that says
// how to make it smaller. It returns other errors unchanged.
func errTooLarge(member string, err error) error {
	if large, ok := err.(*term.TooLarge); ok { //nolint:errorlint // record does not wrap this error
		return fault.New(fault.TooLarge, "the request of %q cannot be recorded: %v; ask for less", member, large)
	}
	return err
}

// NoteRefusal stores that a call of a member was refused because of its budget, so that the
// member's ClusterAdvertisement shows it.
func (b *Broker) NoteRefusal(member, figure, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != nil {
		b.session.Limiter.NoteRefusal(member, figure, detail)
	}
}
