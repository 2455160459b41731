package view

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
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
	// Earned is what a placement in a provider has earned so far; "" if that is not known.
	Earned  string `json:"earned,omitempty"`
	Since   string `json:"since"`
	Ends    string `json:"ends,omitempty"`
	Message string `json:"message,omitempty"`
}

// ListReservations returns one page of the Reservations, ordered by namespace and name. It is empty unless s is of a
// broker's cluster.
func ListReservations(s *Snapshot, by Selection) *Listing {
	l := &Listing{Gaps: s.gapsOf("reservations")}
	if s.Broker == nil {
		return l
	}
	all := s.Broker.Reservations
	l.fillPage(listable{n: len(all), ordered: s.Broker.Ordered, metaOf: func(i int) *metav1.ObjectMeta { return &all[i].ObjectMeta }, selects: func(i int, m *metav1.ObjectMeta) bool {
		r := all[i]
		return by.takesObject(m, string(r.Status.Phase), r.Status.ReservationName, r.Spec.RequesterID, r.Status.TargetClusterID)
	}}, by, func(i int) Listed {
		r := all[i]
		o := reservationObject(r)
		listed := s.newListed(&o, r.Status.Granted, r.Status.Cost)
		listed.Requester, listed.Provider, listed.Ends = r.Spec.RequesterID, r.Status.TargetClusterID, s.describeEnd(r.Status.ExpiresAt, r.Status.Granted)
		listed.Amounts = cmp.Or(listed.Amounts, FormatAmounts(corev1.ResourceList(r.Spec.RequestedResources)))
		return listed
	})
	return l
}

// ListRequests returns one page of the ResourceRequests, ordered by namespace and name. It is empty unless s is of a
// member.
func ListRequests(s *Snapshot, by Selection) *Listing {
	l := &Listing{Gaps: s.gapsOf("resourcerequests")}
	if s.Member == nil {
		return l
	}
	all := s.Member.Requests
	l.fillPage(listable{n: len(all), metaOf: func(i int) *metav1.ObjectMeta { return &all[i].ObjectMeta }, selects: func(i int, m *metav1.ObjectMeta) bool {
		r := &all[i]
		return by.takesObject(m, string(r.Status.Phase), r.Status.ReservationName, "", r.Status.TargetClusterID)
	}}, by, func(i int) Listed {
		r := &all[i]
		o := requestObject(r)
		listed := s.newListed(&o, r.Status.Granted, r.Status.Cost)
		listed.Provider, listed.Ends = r.Status.TargetClusterID, s.describeEnd(r.Status.ExpiresAt, r.Status.Granted)
		listed.Amounts = cmp.Or(listed.Amounts, FormatAmounts(DemandOf(r)))
		return listed
	})
	return l
}

// ListLent returns one page of the placements that this member provides, ordered by name. It is empty unless s is of a
// member.
func ListLent(s *Snapshot, by Selection) *Listing {
	l := &Listing{Gaps: s.gapsOf("providerinstructions")}
	if s.Member == nil {
		return l
	}
	all := s.Member.ProviderInstructions
	l.fillPage(listable{n: len(all), metaOf: func(i int) *metav1.ObjectMeta { return &all[i].ObjectMeta }, selects: func(i int, m *metav1.ObjectMeta) bool {
		p := &all[i]
		return by.takesObject(m, string(p.Status.Phase), p.Spec.ReservationName, p.Spec.RequesterClusterID, "")
	}}, by, func(i int) Listed {
		p := &all[i]
		o := providerObject(p)
		listed := s.newListed(&o, nil, nil)
		listed.Requester, listed.Amounts = p.Spec.RequesterClusterID, FormatAmounts(p.Kept())
		listed.Ends = s.describeEnd(p.Spec.ExpiresAt, nil)
		if e := earningOf(p); e != nil {
			listed.Price, listed.Earned = e.describePrice(), e.soFar(s.At)
		}
		return listed
	})
	return l
}

// takesAll reports whether every object is selected.
func (by *Selection) takesAll() bool {
	return by.Namespace == "" && by.Phase == "" && by.Requester == "" && by.Provider == "" && by.Text == ""
}

// takesObject reports whether an object is selected.
func (by *Selection) takesObject(m *metav1.ObjectMeta, phase, reservation, requester, provider string) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(by.Namespace, m.Namespace) && is(by.Phase, cmp.Or(phase, string(brokerv1alpha1.ReservationPending))) && is(by.Requester, requester) && is(by.Provider, provider) &&
		(by.Text == "" || strings.Contains(m.Name, by.Text) || strings.Contains(reservation, by.Text))
}

// fillPage fills the Listing with one page of objects. It makes rows only for the objects on the page.
func (l *Listing) fillPage(from listable, by Selection, row func(i int) Listed) {
	var page []int
	page, l.Total, l.Next = selectPage(from, by)
	for _, i := range page {
		l.Items = append(l.Items, row(i))
	}
}

// listable are the n objects of one kind that a list can show. selects reports whether the list shows an object.
type listable struct {
	n       int
	metaOf  func(i int) *metav1.ObjectMeta
	selects func(i int, m *metav1.ObjectMeta) bool
	// ordered is true if the objects are ordered by namespace and name.
	ordered bool
}

// selectPage returns the indices of the objects on one page, in the order of their namespaces and names. total is how
// many objects are selected, and next is the value of Selection.After for the next page, "" if there is none.
func selectPage(from listable, by Selection) (page []int, total int, next string) {
	if from.ordered && by.takesAll() && by.Most > 0 {
		return from.pageOfAll(by)
	}
	type entry struct {
		ref Ref
		i   int
	}
	namespace, name, _ := strings.Cut(by.After, "/")
	after := Ref{Namespace: namespace, Name: name}
	rest := first[entry]{compare: func(a, b entry) int { return compareRefs(a.ref, b.ref) }}
	if by.Most > 0 {
		rest.most = by.Most + 1 // one more shows whether there is a next page
	}
	for i := range from.n {
		m := from.metaOf(i)
		if !from.selects(i, m) {
			continue
		}
		total++
		ref := Ref{Namespace: m.Namespace, Name: m.Name}
		if compareRefs(ref, after) > 0 {
			rest.add(entry{ref, i})
		}
	}
	entries := rest.sorted()
	if by.Most > 0 && len(entries) > by.Most {
		entries = entries[:by.Most]
		last := entries[by.Most-1].ref
		next = last.Namespace + "/" + last.Name
	}
	for _, e := range entries {
		page = append(page, e.i)
	}
	return page, total, next
}

// pageOfAll returns what selectPage returns, for ordered objects that are all selected.
func (from listable) pageOfAll(by Selection) (page []int, total int, next string) {
	namespace, name, _ := strings.Cut(by.After, "/")
	first := findOrdered(from.n, from.metaOf, namespace, name)
	if first < from.n {
		if m := from.metaOf(first); m.Namespace == namespace && m.Name == name {
			first++
		}
	}
	end := min(first+by.Most, from.n)
	for i := first; i < end; i++ {
		page = append(page, i)
	}
	if end < from.n {
		last := from.metaOf(end - 1)
		next = last.Namespace + "/" + last.Name
	}
	return page, from.n, next
}

func (s *Snapshot) newListed(o *object, granted *brokerv1alpha1.Granted, cost *brokerv1alpha1.ReservationCost) Listed {
	l := Listed{Ref: o.Ref, Phase: cmp.Or(o.Phase, string(brokerv1alpha1.ReservationPending)), Since: s.age(o.Created), Message: o.Message}
	for _, c := range o.Conditions {
		if t := reasonOf(o.Ref.subject(), c.Reason); t.Level == Failure || t.Level == Warning && l.Level == Normal {
			l.Level = t.Level
		}
	}
	if granted != nil {
		l.Amounts = FormatAmounts(granted.Resources)
	}
	if cost != nil && cost.PerHour != "" {
		l.Price = cost.PerHour + " " + cost.Currency
		if len(cost.NotPriced) > 0 {
			l.Price += ", " + strings.Join(cost.NotPriced, " and ") + " " + notPriced
		}
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
		{"Earned so far", func(i *Listed) string { return i.Earned }},
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
