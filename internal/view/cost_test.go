package view

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func costRequest(namespace, name, provider string, cost *brokerv1alpha1.ReservationCost) *agentv1alpha1.ResourceRequest {
	r := &agentv1alpha1.ResourceRequest{ObjectMeta: named(namespace, name)}
	r.Status.TargetClusterID, r.Status.Cost = provider, cost
	return r
}

func TestMemberCostGrowsUntilTheSnapshot(t *testing.T) {
	hourAgo := new(ago(1 * 3600 * 1e9))
	s := &Snapshot{At: noon, Member: &MemberObjects{Requests: []*agentv1alpha1.ResourceRequest{
		costRequest("team", "a", "paris", &brokerv1alpha1.ReservationCost{PerHour: "0.84", SoFar: "0.1", AsOf: hourAgo, ToEnd: "3.36", Currency: "EUR"}),
		costRequest("team", "b", "paris", &brokerv1alpha1.ReservationCost{PerHour: "0.5", SoFar: "0", AsOf: hourAgo, Currency: "EUR"}),
		costRequest("other", "c", "bern", &brokerv1alpha1.ReservationCost{SoFar: "2", Currency: "CHF", Earlier: []brokerv1alpha1.EarlierCost{{Amount: "1.5", Currency: "EUR"}}}),
		costRequest("other", "waits", "", nil), costRequest("third", "granted", "oslo", nil),
	}}}
	s.Member.Requests[4].Status.Granted = &brokerv1alpha1.Granted{}
	s.Member.Requests[1].Status.Cost.NotPriced = []string{"nvidia.com/gpu"}
	cases := map[CostBy][]CostItem{
		CostByRequest: {
			{Namespace: "other", Name: "c", Currency: "CHF", Cost: "2"}, {Namespace: "other", Name: "c", Currency: "EUR", Cost: "1.5"},
			{Namespace: "team", Name: "a", Currency: "EUR", Cost: "0.94", PerHour: "0.84", ToEnd: "3.36"}, {Namespace: "team", Name: "b"}, {Namespace: "team", Name: "b", Currency: "EUR", Cost: "0.5", PerHour: "0.5"},
			{Namespace: "third", Name: "granted"},
		},
		CostByNamespace: {{Name: "other", Currency: "CHF", Cost: "2"}, {Name: "other", Currency: "EUR", Cost: "1.5"}, {Name: "team"}, {Name: "team", Currency: "EUR", Cost: "1.44", PerHour: "1.34"}, {Name: "third"}},
		CostByProvider:  {{Name: "bern", Currency: "CHF", Cost: "2"}, {Name: "bern", Currency: "EUR", Cost: "1.5"}, {Name: "oslo"}, {Name: "paris"}, {Name: "paris", Currency: "EUR", Cost: "1.44", PerHour: "1.34"}},
	}
	for by, want := range cases {
		got := NewMemberCost(s, by)
		if diff := cmp.Diff(want, got.Items, cmp.AllowUnexported(ResourceCost{})); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
		if diff := cmp.Diff([]CostTotal{{Currency: "CHF", Cost: "2"}, {Currency: "EUR", Cost: "2.94"}}, got.Totals); diff != "" {
			t.Errorf("totals by %s (-want +got):\n%s", by, diff)
		}
	}
}

// The groups add up to the same money, whatever the rows are grouped by.
func TestGroupsOfCostsAddUpToTheTotals(t *testing.T) {
	row := func(tenant, provider, currency string, resource corev1.ResourceName, held, paid int64) AccountRow {
		r := focusRow(resource, held, held/2, 0, paid)
		r.Tenant, r.Provider, r.Currency = tenant, provider, currency
		return r
	}
	rows := []AccountRow{
		row("blue", "paris", "EUR", "cpu", 3_600_000, 3600e9), row("blue", "paris", "EUR", "memory", 3600<<30, 3600e8), row("blue", "bern", "CHF", "cpu", 1, 7200e9),
		row("red", "paris", "EUR", "cpu", 7_200_000, 7200e9), row("red", "oslo", "", "cpu", 3_600_000, 0), row("red", "paris", "EUR", transfer, 0, 1),
	}
	for _, by := range []CostBy{CostByRequester, CostByTenant, CostByProvider, CostByResource} {
		c := NewCost(rows, by, CostSpan{From: noon, To: noon, Until: noon}, nil)
		if diff := cmp.Diff([]CostTotal{{Currency: "CHF", Cost: "2"}, {Currency: "EUR", Cost: "3.1"}}, c.Totals); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", by, diff)
		}
		for i := range c.Items {
			if item := &c.Items[i]; (item.Currency == "") != (item.Cost == "") {
				t.Errorf("%+v has a cost without a currency, or none with one", item)
			}
		}
	}
}

func TestCostSaysWhatWasSaved(t *testing.T) {
	compared := func(provider string, paid, dearest, list int64) AccountRow {
		r := focusRow("cpu", 3_600_000, 0, 0, paid*3600e9)
		r.Provider = provider
		if dearest != 0 {
			r.Dearest = Comparison{Cost: sumOf(dearest * 3600e9), Paid: r.Money}
		}
		if list != 0 {
			r.List = Comparison{Cost: sumOf(list * 3600e9), Paid: sumOf(3600e9)} // a list price existed only for a part of the time, in which 1 EUR was paid
		}
		return r
	}
	c := NewCost([]AccountRow{compared("paris", 2, 5, 3), compared("oslo", 4, 0, 0), compared("bern", 3, 2, 0)}, CostByProvider, CostSpan{From: noon, To: noon, Until: noon}, nil)
	got := map[string]Savings{"total": c.Totals[0].Saved}
	for i := range c.Items {
		got[c.Items[i].Name] = c.Items[i].Saved
	}
	want := map[string]Savings{"paris": {"3", "2"}, "oslo": {}, "bern": {"-1", ""}, "total": {"2", "2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("saved (-want +got):\n%s", diff)
	}
	if row := c.Table().Rows[2]; row.Cells[0] != "paris" || !slices.Equal(row.Cells[len(row.Cells)-2:], []string{"3", "2"}) {
		t.Errorf("the table has the row %q", row.Cells)
	}
	note := "the total cost is 2 EUR less than on the most expensive clusters that could have served the requests, and 2 EUR less than at the list price"
	if diff := cmp.Diff([]string{note}, c.Notes()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
