package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/quotes"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// pledge is capacity that a lender holds for a quote until an instant, or has held.
type pledge struct {
	keyOf
	name     string
	request  *v1.ReservationRequest
	amounts  quantity.Amounts
	provider string
	until    time.Time
	// price is what the provider asks for a core, 0 for none.
	price int64
	// over is true once the quote was taken over or released, or has expired.
	over bool
}

// pledged returns the amount that a lender holds for quotes.
func (o *oracle) pledged(id string, resource corev1.ResourceName) int64 {
	var sum int64
	for _, p := range o.pledges {
		if p.provider == id && !p.over {
			sum += p.amounts[resource]
		}
	}
	return sum
}

func (o *oracle) pledgesOf(requester string) int {
	n := 0
	for _, p := range o.pledges {
		if p.requester == requester && !p.over {
			n++
		}
	}
	return n
}

// anyPledge returns a quote, mostly a new one that is still held; nil if there is none.
func (o *oracle) anyPledge(c choose) *pledge {
	if len(o.pledges) == 0 {
		return nil
	}
	return o.pledges[max(c(len(o.pledges)), c(len(o.pledges)), c(len(o.pledges)))]
}

// comparePledges checks that every quote is held until its end, and no longer. It first ends the
// quotes whose time is over or whose lender is drained.
func (m *machine) comparePledges(now time.Time) error {
	for _, p := range m.pledges {
		_, cordoned := m.rules.drains[p.provider]
		p.over = p.over || !now.Before(p.until) || cordoned
		held := m.session.book.Quotes().Named(p.name)
		if held == nil || (held.Ended != "") != p.over {
			return fmt.Errorf("quote %s, until %s, over: %t; the broker holds %+v", p.name, p.until, p.over, held)
		}
	}
	// The broker may forget quotes that ended long ago, so they are no longer compared.
	if extra := len(m.pledges) - 50; extra > 0 {
		m.pledges = slices.DeleteFunc(m.pledges, func(p *pledge) bool { return p.over })
	}
	return nil
}

func (m *machine) holdQuote(c choose) (cause, error) {
	key := keyOf{oneOf(c, "rome", "rome", "athens", "paris"), fmt.Sprintf("quote-%06d", m.steps)}
	request := m.anyRequest(c)
	request.HoldSeconds = int64(1 + c(300))
	amounts, now := amountsOf(request.Resources), m.now()
	able := m.able(key.requester, request, now)
	answer, err := m.RequestQuote(context.Background(), key.requester, key.key, request)
	switch reason := fault.ReasonOf(err); {
	case reason == fault.Recovering && now.Sub(m.began) < recovery.ListenGrace:
		return cause{}, nil
	case reason == fault.TooManyRequests && m.pledgesOf(key.requester) == quotes.MaxHeld:
		return cause{}, nil
	case err != nil || m.pledgesOf(key.requester) == quotes.MaxHeld:
		return cause{}, fmt.Errorf("asking to hold %v, of %d that are held: %w", request.Resources, m.pledgesOf(key.requester), err)
	case answer.ClusterID == "" && answer.Name == "" && (len(able) == 0 || m.isHeldBack(key, request, able)):
		return cause{}, nil
	case !slices.Contains(able, answer.ClusterID):
		return cause{}, fmt.Errorf("%q is to hold %v, only %v could: %s", answer.ClusterID, request.Resources, able, answer.Message)
	}
	p := &pledge{
		keyOf: key, name: answer.Name, request: request, amounts: amounts, provider: answer.ClusterID,
		until: now.Add(time.Duration(request.HoldSeconds) * time.Second), price: m.lenders[answer.ClusterID].price,
	}
	if !answer.HeldUntil.Equal(p.until) {
		return cause{}, fmt.Errorf("quote %s is held until %s, want %s", p.name, answer.HeldUntil, p.until)
	}
	if now.Sub(m.began) >= recovery.ListenGrace {
		if err := m.inTurn(&told{keyOf: key, name: p.name, request: request, amounts: amounts, duration: time.Duration(request.DurationSeconds) * time.Second}, p.provider, now); err != nil {
			return cause{}, fmt.Errorf("quote %s: %w", p.name, err)
		}
	}
	m.pledges = append(m.pledges, p)
	return cause{}, nil
}

// holdAgain repeats the request for a held quote, or uses its key for another request.
func (m *machine) holdAgain(c choose) (cause, error) {
	p := m.anyPledge(c)
	if p == nil {
		return cause{}, nil
	}
	again, other := *p.request, c(4) == 0
	if other {
		again.HoldSeconds++
	}
	if again.HoldSeconds > 300 {
		return cause{}, nil
	}
	answer, err := m.RequestQuote(context.Background(), p.requester, p.key, &again)
	switch reason := fault.ReasonOf(err); {
	case other && reason == fault.KeyReused, !other && p.over && reason == fault.Released:
		return cause{}, nil
	case err != nil || other || p.over || answer.Name != p.name || answer.ClusterID != p.provider || !answer.HeldUntil.Equal(p.until):
		return cause{}, fmt.Errorf("asking again with %v (another request: %t, over: %t): %+v, %w", p.keyOf, other, p.over, answer, err)
	}
	return cause{}, nil
}

// takeOver takes over a quote that is or was held.
func (m *machine) takeOver(c choose) (cause, error) {
	p := m.anyPledge(c)
	if p == nil {
		return cause{}, nil
	}
	request, requester := *p.request, p.requester
	request.HoldSeconds, request.Quote = 0, p.name
	stranger, other := c(12) == 0, c(8) == 0
	if stranger {
		requester = "milan"
	}
	if other {
		request.DurationSeconds += 60
	}
	key := keyOf{requester, fmt.Sprintf("taker-%06d", m.steps)}
	answer, err := m.RequestReservation(context.Background(), key.requester, key.key, &request)
	switch reason := fault.ReasonOf(err); {
	case stranger && reason == fault.NotFound, p.over && reason == fault.Released, other && reason == fault.Conflict:
		return cause{}, nil
	case reason == fault.Recovering && m.now().Sub(m.began) < recovery.ListenGrace:
		return cause{}, nil
	case err != nil || stranger || p.over || other || answer.Placements[0].ClusterID != p.provider:
		return cause{}, fmt.Errorf("taking quote %s over, of %s (stranger: %t, over: %t, another request: %t): %+v, %w",
			p.name, p.provider, stranger, p.over, other, answer, err)
	}
	p.over = true
	known := m.enter(key, &request, answer)
	known.taken, known.pledge = true, p
	return cause{}, nil
}

func (m *machine) letGoOne(c choose) (cause, error) {
	p := m.anyPledge(c)
	if p == nil {
		return cause{}, nil
	}
	p.over = true
	return cause{}, m.ReleaseQuote(context.Background(), p.requester, oneOf(c, p.name, p.key))
}
