package view

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Selection selects rows of a list. Empty fields do not restrict it.
type Selection struct {
	Namespace, Phase, Requester, Provider string
	// Text is a part of the name of the object or of its reservation.
	Text string
	// After is the key of the last row of the previous page, see Listing.Next.
	After string
	// Most is the maximum number of rows of a page; 0 for no limit.
	Most int
}

// Listing is one page of a list of reservations, requests or placements.
type Listing struct {
	Items []Listed `json:"items"`
	// Total is the number of selected objects on all pages.
	Total int `json:"total"`
	// Next is the value of Selection.After for the next page; "" on the last page.
	Next string `json:"next,omitempty"`
	Gaps []Gap  `json:"gaps,omitempty"`
}

// Listed is a row of a Listing.
type Listed struct {
	Ref       `json:",inline"`
	Requester string `json:"requester,omitempty"`
	Provider  string `json:"provider,omitempty"`
	Phase     string `json:"phase"`
	Level     Level  `json:"level,omitempty"`
	// Amounts are the granted amounts, or the requested ones if nothing is granted. For a placement in a provider, they
	// are what the provider keeps for the consumer.
	Amounts string `json:"amounts"`
	// Price is the price per hour with its currency, and says what is not priced; "" for none.
	Price string `json:"price,omitempty"`
	// Used is how much of Amounts the pods of a placement in a provider request; "" if that is not known.
	Used string `json:"used,omitempty"`
	// Earned is what a placement in a provider has earned so far; "" if that is not known.
	Earned  string `json:"earned,omitempty"`
	Since   string `json:"since"`
	Ends    string `json:"ends,omitempty"`
	Message string `json:"message,omitempty"`
}

// ListReservations returns one page of the Reservations of a broker's cluster, ordered by namespace and name.
func ListReservations(s *Snapshot, by Selection) *Listing {
	return newListing(s.Broker.Reservations, s.Broker.Ordered, by, s.gapsOf("reservations"), func(r *brokerv1alpha1.Reservation) traits {
		return traits{string(r.Status.Phase), r.Status.ReservationName, r.Spec.RequesterID, r.Status.TargetClusterID}
	}, func(r *brokerv1alpha1.Reservation) Listed { return s.newListed(objectOf(r), r) })
}

// ListRequests returns one page of the ResourceRequests of a member, ordered by namespace and name.
func ListRequests(s *Snapshot, by Selection) *Listing {
	return newListing(s.Member.Requests, false, by, s.gapsOf("resourcerequests"), func(r *agentv1alpha1.ResourceRequest) traits {
		return traits{string(r.Status.Phase), r.Status.ReservationName, "", r.Status.TargetClusterID}
	}, func(r *agentv1alpha1.ResourceRequest) Listed {
		return s.newListed(objectOf(r), asReservation(r))
	})
}

// ListLent returns one page of the placements that a member provides, ordered by name. used maps the names of placements
// to what their pods request; it is nil if that is not known.
func ListLent(s *Snapshot, by Selection, used map[string]quantity.Amounts) *Listing {
	return newListing(s.Member.ProviderInstructions, false, by, s.gapsOf("providerinstructions"), func(p *agentv1alpha1.ProviderInstruction) traits {
		return traits{string(p.Status.Phase), p.Spec.ReservationName, p.Spec.RequesterClusterID, ""}
	}, func(p *agentv1alpha1.ProviderInstruction) Listed {
		listed := s.newListed(objectOf(p), &brokerv1alpha1.Reservation{})
		listed.Requester, listed.Amounts = p.Spec.RequesterClusterID, FormatAmounts(p.Kept())
		listed.Ends = s.describeEnd(p.Spec.ExpiresAt, nil)
		if used != nil {
			var parts []string
			for _, l := range loadsOf(p.Kept(), used[p.Name].ToResourceList(), true) {
				parts = append(parts, formatNamed(l.Resource, *l.Used)+" ("+percent(*l.Used, l.Reserved)+")")
			}
			listed.Used = strings.Join(parts, ", ")
		}
		if e := earningOf(p); e != nil {
			listed.Price, listed.Earned = e.describePrice(), e.soFar(s.At)
		}
		return listed
	})
}

// newListing returns a page of the selected items. It makes rows only for the items on the page.
func newListing[T metav1.Object](items []T, ordered bool, by Selection, gaps []Gap, traitsOf func(T) traits, row func(T) Listed) *Listing {
	page, total, next := selectPage(items, ordered, by, traitsOf)
	l := &Listing{Total: total, Next: next, Gaps: gaps}
	for _, o := range page {
		l.Items = append(l.Items, row(o))
	}
	return l
}

// traits are what a Selection compares of an object, besides its name.
type traits struct{ phase, reservation, requester, provider string }

func (by *Selection) takesObject(namespace, name string, t traits) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(by.Namespace, namespace) && is(by.Phase, cmp.Or(t.phase, string(brokerv1alpha1.ReservationPending))) && is(by.Requester, t.requester) && is(by.Provider, t.provider) &&
		(by.Text == "" || strings.Contains(name, by.Text) || strings.Contains(t.reservation, by.Text))
}

// selectPage returns the selected items on one page, in the order of their namespaces and names. ordered is true if all
// items have this order. total is how many items are selected, and next is the value of Selection.After for the next
// page, "" if there is none.
func selectPage[T metav1.Object](items []T, ordered bool, by Selection, traitsOf func(T) traits) (page []T, total int, next string) {
	namespace, name, _ := strings.Cut(by.After, "/")
	after := Ref{Namespace: namespace, Name: name}
	if ordered && by.Most > 0 && by == (Selection{After: by.After, Most: by.Most}) {
		total = len(items)
		items = items[findOrdered(items, namespace, name):]
		if len(items) > 0 && refOf(items[0]) == after {
			items = items[1:]
		}
		page = items[:min(by.Most+1, len(items))]
	} else {
		rest := first[T]{compare: func(a, b T) int { return compareRefs(refOf(a), refOf(b)) }}
		if by.Most > 0 {
			rest.most = by.Most + 1 // one more shows whether there is a next page
		}
		for _, o := range items {
			if !by.takesObject(o.GetNamespace(), o.GetName(), traitsOf(o)) {
				continue
			}
			total++
			if compareRefs(refOf(o), after) > 0 {
				rest.add(o)
			}
		}
		page = rest.sorted()
	}
	if by.Most > 0 && len(page) > by.Most {
		page = page[:by.Most]
		last := page[by.Most-1]
		next = last.GetNamespace() + "/" + last.GetName()
	}
	return page, total, next
}

func refOf[T metav1.Object](o T) Ref { return Ref{Namespace: o.GetNamespace(), Name: o.GetName()} }

// newListed describes an object. r has what is known of its demand.
func (s *Snapshot) newListed(o object, r *brokerv1alpha1.Reservation) Listed {
	l := Listed{Ref: o.Ref, Phase: cmp.Or(o.Phase, string(brokerv1alpha1.ReservationPending)), Since: s.Age(o.Created), Message: o.Message}
	l.Requester, l.Provider, l.Ends = r.Spec.RequesterID, r.Status.TargetClusterID, s.describeEnd(r.Status.ExpiresAt, r.Status.Granted)
	for _, c := range o.Conditions {
		if t := reasonOf(o.Ref.subject(), c.Reason); t.Level == Failure || t.Level == Warning && l.Level == Normal {
			l.Level = t.Level
		}
	}
	l.Amounts = FormatAmounts(corev1.ResourceList(r.Spec.RequestedResources))
	if granted := r.Status.Granted; granted != nil {
		l.Amounts = FormatAmounts(granted.Resources)
	}
	switch cost := r.Status.Cost; {
	case cost == nil && r.Status.Granted != nil:
		l.Price = NotPriced
	case cost != nil && cost.PerHour != "":
		l.Price = WithNotPriced(cost.PerHour+" "+cost.Currency, cost.NotPriced)
	}
	return l
}

// Table returns the page as a table. It leaves out columns that are empty in all rows.
func (l *Listing) Table() Table {
	columns := []struct {
		name string
		cell func(*Listed) string
	}{
		{"Namespace", func(i *Listed) string { return i.Namespace }}, {"Name", func(i *Listed) string { return i.Name }},
		{"Phase", func(i *Listed) string { return i.Phase }},
		{"Requester", func(i *Listed) string { return i.Requester }}, {"Provider", func(i *Listed) string { return i.Provider }},
		{"Amounts", func(i *Listed) string { return i.Amounts }}, {"Price per hour", func(i *Listed) string { return i.Price }},
		{"Used", func(i *Listed) string { return i.Used }}, {"Earned so far", func(i *Listed) string { return i.Earned }},
		{"Age", func(i *Listed) string { return i.Since }}, {"Ends", func(i *Listed) string { return i.Ends }},
		{"Message", func(i *Listed) string { return i.Message }},
	}
	t := Table{Rows: make([]Row, len(l.Items))}
	for i := range l.Items {
		t.Rows[i].Ref = l.Items[i].Ref
	}
	for _, c := range columns {
		if !slices.ContainsFunc(l.Items, func(i Listed) bool { return c.cell(&i) != "" }) {
			continue
		}
		t.Columns = append(t.Columns, Column{Name: c.name})
		for i := range l.Items {
			t.Rows[i].Cells = append(t.Rows[i].Cells, cmp.Or(c.cell(&l.Items[i]), "-"))
		}
	}
	return t
}
