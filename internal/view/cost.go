package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Cost is the output of the command cost: what was reserved, used and paid.
type Cost struct {
	metav1.TypeMeta `json:",inline"`
	// By says how the items are grouped.
	By CostBy `json:"by"`
	// From and To are the beginning and the end of the time that the items cover. Both are zero in a member.
	From metav1.Time `json:"from,omitzero"`
	To   metav1.Time `json:"to,omitzero"`
	// Until is when the figures end, if that is before To. In a broker's cluster, that is the time of the newest event.
	// In a member, it is the time at which the requests were read.
	Until metav1.Time `json:"until,omitzero"`
	Items []CostItem  `json:"items"`
	// Totals are the sums of all items, one for each currency.
	Totals []CostTotal `json:"totals,omitempty"`
	// Deleted names the periods whose figures are missing because the broker no longer keeps them.
	Deleted []string `json:"deleted,omitempty"`
	Gaps    []Gap    `json:"gaps,omitempty"`
}

// CostBy says how the items of a Cost are grouped.
type CostBy string

// Values of CostBy. A broker's cluster has CostByRequester, CostByTenant, CostByProvider and CostByResource. A member
// has CostByNamespace, CostByRequest and CostByProvider.
const (
	CostByRequester CostBy = "requester"
	CostByTenant    CostBy = "tenant"
	CostByProvider  CostBy = "provider"
	CostByResource  CostBy = "resource"
	CostByNamespace CostBy = "namespace"
	CostByRequest   CostBy = "request"
)

// CostItem is the sum for one group. Its amounts of money are decimals with at most nine places.
type CostItem struct {
	// From is when the item's period begins. It is zero if the item covers the whole time of the Cost.
	From      metav1.Time `json:"from,omitzero"`
	Namespace string      `json:"namespace,omitempty"`
	Name      string      `json:"name"`
	// Currency is an ISO 4217 code. Currency and Cost are "" for resources without a price.
	Currency string `json:"currency,omitempty"`
	Cost     string `json:"cost,omitempty"`
	// Saved is set only in a broker's cluster.
	Saved Savings `json:"saved,omitzero"`
	// PerHour is what the group's requests cost per hour now. ToEnd is what they will have cost at their ends; "" if
	// one of them has no duration. Both are set only in a member.
	PerHour   string         `json:"perHour,omitempty"`
	ToEnd     string         `json:"toEnd,omitempty"`
	Resources []ResourceCost `json:"resources,omitempty"`
}

// ResourceCost is how much of one resource was reserved and used. Reserved, Used and Unobserved are decimals in Unit,
// for example core hours.
type ResourceCost struct {
	Resource corev1.ResourceName `json:"resource"`
	Unit     string              `json:"unit,omitempty"`
	Reserved string              `json:"reserved,omitempty"`
	Used     string              `json:"used,omitempty"`
	// Unobserved is the part of Reserved whose use is unknown. Used does not include it.
	Unobserved string `json:"unobserved,omitempty"`
	// Cost is "" without a price.
	Cost string `json:"cost,omitempty"`

	sums AccountSums
}

// CostTotal is a sum of money in one currency.
type CostTotal struct {
	Currency string  `json:"currency"`
	Cost     string  `json:"cost"`
	Saved    Savings `json:"saved,omitzero"`
}

// AccountRow is what one account reserved, used and paid of one resource in one period.
type AccountRow struct {
	From, To time.Time
	// Tenant, Requester and Provider identify the account. Currency is empty for resources without a price.
	Tenant, Requester, Provider, Currency string
	Resource                              corev1.ResourceName
	AccountSums
}

// AccountSums are the sums of one or more accounts over a period. Unobserved is the part of Held whose use is unknown.
// Held, Used and Unobserved are in base units × seconds; for Money see money.Sum.
type AccountSums struct {
	Held, Used, Unobserved, Money money.Sum
	// Dearest and List compare Money with other prices.
	Dearest, List Comparison
}

// Add adds t to the sums.
func (s *AccountSums) Add(t AccountSums) {
	s.Held, s.Used, s.Unobserved, s.Money = s.Held.Plus(t.Held), s.Used.Plus(t.Used), s.Unobserved.Plus(t.Unobserved), s.Money.Plus(t.Money)
	s.Dearest.add(t.Dearest)
	s.List.add(t.List)
}

func (r *AccountRow) nameIn(by CostBy) string {
	switch by {
	case CostByTenant:
		return r.Tenant
	case CostByProvider:
		return r.Provider
	case CostByResource:
		return string(r.Resource)
	}
	return r.Requester
}

// CostSpan is the time that a Cost covers, from From to To.
type CostSpan struct {
	From, To time.Time
	// Until is when the figures end.
	Until time.Time
	// Split returns the beginning of the period that contains a time, for a Cost with separate items for each period.
	// If it is nil, each item covers all periods.
	Split func(time.Time) time.Time
}

// costKey identifies an item while rows are added up.
type costKey struct {
	from           time.Time
	name, currency string
}

func (k costKey) compare(other costKey) int {
	return cmp.Or(k.from.Compare(other.from), cmp.Compare(k.name, other.name), cmp.Compare(k.currency, other.currency))
}

// NewCost adds up rows of the broker's accounts in groups. deleted names the periods whose rows are missing.
func NewCost(rows []AccountRow, by CostBy, span CostSpan, deleted []string) *Cost {
	c := newCost(by)
	c.From, c.To, c.Deleted = metav1.NewTime(span.From), metav1.NewTime(span.To), deleted
	if span.Until.Before(span.To) {
		c.Until = metav1.NewTime(span.Until)
	}
	groups, totals := map[costKey]map[corev1.ResourceName]AccountSums{}, map[string]*AccountSums{}
	for i := range rows {
		r := &rows[i]
		key := costKey{name: r.nameIn(by), currency: r.Currency}
		if span.Split != nil {
			key.from = span.Split(r.From)
		}
		if groups[key] == nil {
			groups[key] = map[corev1.ResourceName]AccountSums{}
		}
		sums := groups[key][r.Resource]
		sums.Add(r.AccountSums)
		groups[key][r.Resource] = sums
		if totals[r.Currency] == nil {
			totals[r.Currency] = &AccountSums{}
		}
		totals[r.Currency].Add(r.AccountSums)
	}
	for _, key := range slices.SortedFunc(maps.Keys(groups), costKey.compare) {
		c.Items = append(c.Items, newCostItem(key, groups[key]))
	}
	for _, currency := range slices.Sorted(maps.Keys(totals)) {
		if currency != "" {
			c.Totals = append(c.Totals, CostTotal{currency, totals[currency].Money.Money().String(), totals[currency].saved()})
		}
	}
	return c
}

func newCost(by CostBy) *Cost {
	return &Cost{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Cost"}, By: by, Items: []CostItem{}}
}

func newCostItem(key costKey, sums map[corev1.ResourceName]AccountSums) CostItem {
	item, total := CostItem{From: metav1.Time{Time: key.from}, Name: key.name, Currency: key.currency}, AccountSums{}
	for _, name := range sortedResources(sums) {
		s := sums[name]
		total.Add(s)
		cost := ResourceCost{Resource: name, Unit: HoursUnit(name), sums: s}
		if key.currency != "" {
			cost.Cost = s.Money.Money().String()
		}
		if !s.Held.IsZero() {
			cost.Reserved, cost.Used, cost.Unobserved = HoursOf(name, s.Held).String(), HoursOf(name, s.Used).String(), HoursOf(name, s.Unobserved).String()
		}
		item.Resources = append(item.Resources, cost)
	}
	if key.currency != "" {
		item.Cost, item.Saved = total.Money.Money().String(), total.saved()
	}
	return item
}

// transfer is the name of the resource under which the accounts charge for the transfer of data. Its rows have no
// reserved amounts.
const transfer corev1.ResourceName = "egress"

// HoursUnit returns the unit for amounts of a resource over time: core hours, GiB hours, or hours of one piece. It is
// "" for transferred data.
func HoursUnit(name corev1.ResourceName) string {
	switch {
	case name == transfer:
		return ""
	case name == corev1.ResourceCPU:
		return "core hours"
	case quantity.InBytes(name):
		return "GiB hours"
	}
	return "hours"
}

// HoursOf converts base units × seconds to the unit of HoursUnit. It rounds to nine places.
func HoursOf(name corev1.ResourceName, s money.Sum) decimal.Decimal {
	base := decimal.NewFromInt(money.BasePerPriced(name)).Mul(decimal.NewFromInt(3600))
	return decimal.NewFromBigInt(s.Int(), 0).DivRound(base, 30).RoundBank(money.Places)
}

// Table returns the items as a table with one row for each resource of an item, and one row for each total.
func (c *Cost) Table() Table {
	if c.From.IsZero() {
		return c.memberTable()
	}
	columns := []Column{{Name: string(c.By)}, {Name: "Cost"}, {Name: "Currency"}, {Name: "Resource"}, {Name: "Reserved"}, {Name: "Used"}, {Name: "Share"}, {Name: "Unobserved", Wide: true}, {Name: "Cost of the resource", Wide: true}}
	if c.HasSavings() {
		columns = append(columns, Column{Name: "Saved: dearest", Wide: true}, Column{Name: "Saved: list", Wide: true})
	}
	if c.By == CostByResource {
		columns = slices.Delete(columns, 3, 4)
	}
	if c.isSplit() {
		columns = append([]Column{{Name: "Period"}}, columns...)
	}
	t := Table{Columns: columns}
	for i := range c.Items {
		t.Rows = append(t.Rows, c.rowsOf(&c.Items[i])...)
	}
	for _, total := range c.Totals {
		row := []string{"total", shortMoney(total.Cost), total.Currency}
		if c.isSplit() {
			row = append([]string{""}, row...)
		}
		t.Rows = append(t.Rows, Row{Cells: row})
	}
	return t
}

func (c *Cost) isSplit() bool {
	return slices.ContainsFunc(c.Items, func(i CostItem) bool { return !i.From.IsZero() })
}

// HasSavings reports whether the cost of any item was compared with another price.
func (c *Cost) HasSavings() bool {
	return slices.ContainsFunc(c.Items, func(i CostItem) bool { return i.Saved != (Savings{}) })
}

// CostRow describes one resource of a CostItem in words, for display.
type CostRow struct {
	// First is true for the first row of an item. Period is when the item's period begins; "" if the Cost is not split.
	First        bool
	Period, Name string
	// Cost and Currency are about all resources of the item. Dearest and List are its savings; "-" if unknown.
	Cost, Currency, Dearest, List string
	// Resource, Reserved, Used, Share, Unobserved and ResourceCost are about this resource. Share is Used as a part of
	// Reserved, and Percent the same as a number; -1 if it is unknown.
	Resource, Reserved, Used, Share, Unobserved, ResourceCost string
	Percent                                                   int64
}

// Rows describes the resources of an item of the Cost, in the item's order.
func (c *Cost) Rows(item *CostItem) []CostRow {
	rows := make([]CostRow, len(item.Resources))
	for i := range item.Resources {
		r := &item.Resources[i]
		row := CostRow{
			First: i == 0, Name: item.Name, Cost: priceOrNone(item.Cost), Currency: cmp.Or(item.Currency, "-"), Dearest: shortMoney(item.Saved.Dearest), List: shortMoney(item.Saved.List),
			Resource: string(r.Resource), Reserved: "-", Used: "-", Share: "-", Unobserved: "-", ResourceCost: priceOrNone(r.Cost), Percent: -1,
		}
		if c.isSplit() {
			row.Period = item.From.UTC().Format("2006-01-02T15:04Z")
		}
		if r.Reserved != "" {
			row.Reserved, row.Used, row.Unobserved = r.hours(r.sums.Held), r.hours(r.sums.Used), r.hours(r.sums.Unobserved)
			if r.sums.Unobserved.Equal(r.sums.Held) {
				row.Used = "unknown"
			} else {
				row.Percent = decimal.NewFromBigInt(r.sums.Used.Int(), 2).DivRound(decimal.NewFromBigInt(r.sums.Held.Int(), 0), 0).IntPart()
				row.Share = fmt.Sprintf("%d %%", row.Percent)
			}
		}
		rows[i] = row
	}
	return rows
}

// TotalRow describes a CostTotal in words, for display.
type TotalRow struct{ Currency, Cost, Dearest, List string }

// TotalRows describes the totals.
func (c *Cost) TotalRows() []TotalRow {
	rows := make([]TotalRow, len(c.Totals))
	for i, t := range c.Totals {
		rows[i] = TotalRow{t.Currency, shortMoney(t.Cost), shortMoney(t.Saved.Dearest), shortMoney(t.Saved.List)}
	}
	return rows
}

func (c *Cost) rowsOf(item *CostItem) (rows []Row) {
	for _, r := range c.Rows(item) {
		who := []string{r.Name, r.Cost, r.Currency}
		if c.isSplit() {
			who = append([]string{r.Period}, who...)
		}
		if !r.First {
			who = make([]string, len(who))
		}
		if c.By != CostByResource {
			who = append(who, r.Resource)
		}
		var saved []string
		switch {
		case !c.HasSavings():
		case r.First: // the savings are about all resources of the item together
			saved = []string{r.Dearest, r.List}
		default:
			saved = []string{"", ""}
		}
		rows = append(rows, Row{Ref: c.refOf(item), Cells: slices.Concat(who, []string{r.Reserved, r.Used, r.Share, r.Unobserved, r.ResourceCost}, saved)})
	}
	return rows
}

func (r *ResourceCost) hours(s money.Sum) string {
	return HoursOf(r.Resource, s).Round(costPlaces).String() + " " + r.Unit
}

// refOf returns the object that an item is about. It is zero for a tenant, a resource or a namespace.
func (c *Cost) refOf(item *CostItem) Ref {
	switch c.By {
	case CostByRequester, CostByProvider:
		return Ref{Kind: "ClusterAdvertisement", Name: item.Name}
	case CostByRequest:
		return Ref{Kind: "ResourceRequest", Namespace: item.Namespace, Name: item.Name}
	}
	return Ref{}
}

// shortMoney rounds an amount of money to costPlaces for display. It returns "-" for "", and any other text that is not
// a number unchanged.
func shortMoney(text string) string {
	amount, err := decimal.NewFromString(text)
	if err != nil {
		return cmp.Or(text, "-")
	}
	return amount.Round(costPlaces).String()
}

// priceOrNone is shortMoney, except that it says so if there is no price.
func priceOrNone(text string) string { return shortMoney(cmp.Or(text, NotPriced)) }

// NewMemberCost adds up what the requests of a member have cost until the time of the snapshot. It contains no cost or
// use of single resources. Deleted requests are missing.
func NewMemberCost(s *Snapshot, by CostBy) *Cost {
	c := newCost(by)
	c.Until, c.Gaps = metav1.NewTime(s.At), s.gapsOf("resourcerequests")
	items, totals := map[costKey]*memberSum{}, map[string]decimal.Decimal{}
	for _, r := range s.Member.Requests {
		for _, part := range s.partsOf(r) {
			key := costKey{name: nameOfRequest(r, by), currency: part.currency}
			if items[key] == nil {
				items[key] = &memberSum{item: CostItem{Name: key.name, Currency: part.currency}}
				if by == CostByRequest {
					items[key].item.Namespace, items[key].item.Name = r.Namespace, r.Name
				}
			}
			items[key].add(part)
			if part.currency != "" {
				totals[part.currency] = totals[part.currency].Add(part.soFar)
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(items), costKey.compare) {
		c.Items = append(c.Items, items[key].toItem())
	}
	for _, currency := range slices.Sorted(maps.Keys(totals)) {
		c.Totals = append(c.Totals, CostTotal{Currency: currency, Cost: totals[currency].String()})
	}
	return c
}

func nameOfRequest(r *agentv1alpha1.ResourceRequest, by CostBy) string {
	switch by {
	case CostByNamespace:
		return r.Namespace
	case CostByProvider:
		return r.Status.TargetClusterID
	}
	return r.Namespace + "/" + r.Name
}

// costPart is what a request costs in one currency.
type costPart struct {
	currency       string
	soFar, perHour decimal.Decimal
	// toEnd is the whole cost until the end of the request. It is soFar if endless is true: then the request costs
	// something and has no end.
	toEnd   decimal.Decimal
	endless bool
}

// partsOf returns what a request costs: first in the currency of its present provider, then one part for each entry of
// Earlier, and one without a currency if it holds resources without a price. Texts that are not numbers count as zero.
func (s *Snapshot) partsOf(r *agentv1alpha1.ResourceRequest) (out []costPart) {
	c := r.Status.Cost
	switch {
	case c == nil && r.Status.Granted == nil:
		return nil
	case c == nil:
		return []costPart{{}}
	}
	number := func(text string) decimal.Decimal {
		n, _ := decimal.NewFromString(text)
		return n
	}
	part := costPart{currency: c.Currency, soFar: s.exactCost(c), perHour: number(c.PerHour), toEnd: number(c.ToEnd)}
	if c.ToEnd == "" {
		part.toEnd, part.endless = part.soFar, !part.perHour.IsZero()
	}
	out = append(out, part)
	for _, e := range c.Earlier {
		out = append(out, costPart{currency: e.Currency, soFar: number(e.Amount), toEnd: number(e.Amount)})
	}
	if len(c.NotPriced) > 0 {
		out = append(out, costPart{})
	}
	return out
}

type memberSum struct {
	item CostItem
	costPart
}

func (m *memberSum) add(p costPart) {
	m.soFar, m.perHour, m.toEnd = m.soFar.Add(p.soFar), m.perHour.Add(p.perHour), m.toEnd.Add(p.toEnd)
	m.endless = m.endless || p.endless
}

func (m *memberSum) toItem() CostItem {
	if m.item.Currency == "" {
		return m.item
	}
	m.item.Cost = m.soFar.String()
	if m.perHour.IsZero() {
		return m.item
	}
	if m.item.PerHour = m.perHour.String(); !m.endless {
		m.item.ToEnd = m.toEnd.String()
	}
	return m.item
}

func (c *Cost) memberTable() Table {
	t := Table{Columns: []Column{{Name: string(c.By)}, {Name: "Cost so far"}, {Name: "Currency"}, {Name: "Per hour"}, {Name: "To the end"}}}
	if c.By == CostByRequest {
		t.Columns = append([]Column{{Name: "Namespace"}}, t.Columns...)
	}
	add := func(ref Ref, namespace string, cells ...string) {
		if c.By == CostByRequest {
			cells = append([]string{namespace}, cells...)
		}
		t.Rows = append(t.Rows, Row{Ref: ref, Cells: cells})
	}
	for i := range c.Items {
		item := &c.Items[i]
		add(c.refOf(item), item.Namespace, item.Name, priceOrNone(item.Cost), cmp.Or(item.Currency, "-"), shortMoney(item.PerHour), shortMoney(item.ToEnd))
	}
	for _, total := range c.Totals {
		add(Ref{}, "", "total", shortMoney(total.Cost), total.Currency, "", "")
	}
	return t
}

// Notes returns the sentences that are printed with the figures: when the figures end, what was saved, and which
// periods are missing.
func (c *Cost) Notes() (notes []string) {
	if !c.Until.IsZero() && !c.From.IsZero() {
		notes = append(notes, "the figures end at "+c.Until.UTC().Format(time.RFC3339)+", the broker's newest record")
	}
	for _, total := range c.Totals {
		if text := total.Saved.describe(total.Currency); text != "" {
			notes = append(notes, text)
		}
	}
	if len(c.Deleted) > 0 {
		notes = append(notes, fmt.Sprintf("not included, because the broker no longer keeps them: %s; a longer --period may be kept", listFirst(c.Deleted, 1)))
	}
	return notes
}

// listFirst lists the first names, and says how many more there are.
func listFirst(names []string, most int) string {
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
