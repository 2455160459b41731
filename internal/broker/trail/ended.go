package trail

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// Ended describes a reservation that has ended.
type Ended struct {
	Name      string `json:"name"`
	Requester string `json:"requester"`
	Tenant    string `json:"tenant,omitempty"`
	// Providers are the clusters that were granted a placement, in order.
	Providers []string            `json:"providers,omitempty"`
	Resources corev1.ResourceList `json:"resources"`
	// RequestedBy and EndedBy name the actors in words; "" if they are unknown.
	RequestedBy string    `json:"requestedBy,omitempty"`
	EndedBy     string    `json:"endedBy,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
	EndedAt     time.Time `json:"endedAt"`
	// Reason is why the reservation ended, and Message explains the reason.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Price is the locked price of the last placement for one hour, for example "0.8 EUR", and says what is
	// not priced; "" without a placement.
	Price string `json:"price,omitempty"`
	// Costs lists what the reservation cost in each currency, for example "1.25 EUR".
	Costs []string `json:"costs,omitempty"`
	// Placements are the newest placements, in order.
	Placements []history.Placement `json:"placements,omitempty"`
}

// DescribeEnded describes reservations that have ended, sorted by the time of their end.
func DescribeEnded(rows []history.Row) []Ended {
	out := make([]Ended, 0, len(rows))
	for i := range rows {
		out = append(out, endedOf(&rows[i]))
	}
	slices.SortFunc(out, func(a, b Ended) int { return cmp.Or(a.EndedAt.Compare(b.EndedAt), cmp.Compare(a.Name, b.Name)) })
	return out
}

func endedOf(r *history.Row) Ended {
	e := Ended{
		Name: r.Name, Requester: r.Requester, Tenant: r.Tenant, Resources: r.Amounts.ToResourceList(),
		RequestedBy: ledger.Actor(r.By).String(), EndedBy: ledger.Actor(r.EndedBy).String(),
		CreatedAt: r.CreatedAt, EndedAt: r.EndedAt, Reason: r.Reason, Message: r.Message, Placements: r.Placements,
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		e.Providers, e.Price = append(e.Providers, p.Provider), view.NotPriced
		if p.Currency != "" {
			e.Price = view.WithNotPriced(p.PerHour.String()+" "+p.Currency, p.NotPriced)
		}
	}
	for _, c := range r.Costs {
		e.Costs = append(e.Costs, c.Sum.Money().String()+" "+c.Currency)
	}
	return e
}

// SelectEnded returns the ended reservations that the filter selects. Since and Until apply to the
// time of the end. Kinds is ignored.
func (f *Filter) SelectEnded(all []Ended) []Ended {
	var out []Ended
	for _, e := range all {
		isActor := f.Actor == "" || strings.Contains(e.RequestedBy, f.Actor) || strings.Contains(e.EndedBy, f.Actor)
		isCluster := f.Cluster == "" || f.Cluster == e.Requester || slices.Contains(e.Providers, f.Cluster)
		inTime := !e.EndedAt.Before(f.Since) && (f.Until.IsZero() || !e.EndedAt.After(f.Until))
		if isActor && isCluster && inTime && (f.Reservation == "" || f.Reservation == e.Name) {
			out = append(out, e)
		}
	}
	return out
}
