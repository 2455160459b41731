package broker

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// reserveForDays reserves four cores on paris, which acknowledges at once.
func (f *fleet) reserveForDays(id, tenant string) {
	f.t.Helper()
	r := f.reserve(id, "request-of-"+id, with(func(r *v1.ReservationRequest) {
		fourHours(r)
		r.DurationSeconds, r.Tenant, r.TargetClusterID = 100*3600, tenant, "paris"
	}))
	f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
}

// costs returns the answers to some queries of a cluster, as JSON.
func (f *fleet) costs(id string) string {
	f.t.Helper()
	midnight := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	var all []*v1.CostList
	for _, q := range []v1.ListCostsParams{
		{}, {Period: new(v1.ListCostsParamsPeriod("day"))}, {From: midnight.Add(12 * time.Hour), To: midnight.Add(14 * time.Hour), Period: new(v1.ListCostsParamsPeriod("hour"))}, {From: midnight.AddDate(-1, 0, 0)},
	} {
		list, err := f.ListCosts(context.Background(), id, &q)
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, list)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// What a cluster is told about costs is the same whether or not other clusters exist.
func TestCostsOfOthersAreNotShown(t *testing.T) {
	told := map[bool]map[string]string{}
	for _, others := range []bool{false, true} {
		inFleet(t, func(f *fleet) {
			f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
			f.reserveForDays("rome", "blue")
			if others {
				f.reserveForDays("milan", "red")
			}
			time.Sleep(26*time.Hour + 10*time.Minute)
			synctest.Wait()
			told[others] = map[string]string{"rome": f.costs("rome"), "oslo": f.costs("oslo")}
			if !others {
				return
			}
			list, err := f.ListCosts(context.Background(), "paris", &v1.ListCostsParams{})
			if err != nil {
				t.Fatal(err)
			}
			earned := map[string]string{}
			for _, r := range list.Rows {
				if r.Tenant != "" {
					t.Errorf("the provider learns of tenant %s", r.Tenant)
				}
				earned[r.RequesterID+" "+r.Resource] = r.Reserved + " " + r.Unit + " for " + r.Cost + " " + r.Currency
			}
			want := map[string]string{
				"rome cpu": "104 core hours for 20.8 EUR", "rome memory": "26 GiB hours for 0 EUR", "milan cpu": "104 core hours for 20.8 EUR", "milan memory": "26 GiB hours for 0 EUR",
			}
			if diff := cmp.Diff(want, earned); diff != "" {
				t.Errorf("paris (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(told[false], told[true]); diff != "" {
		t.Errorf("without and with another cluster (-without +with):\n%s", diff)
	}
	var rome, oslo []v1.CostList
	if json.Unmarshal([]byte(told[true]["rome"]), &rome) != nil || json.Unmarshal([]byte(told[true]["oslo"]), &oslo) != nil {
		t.Fatal("the answers are no JSON")
	}
	for i, want := range []int{2, 4, 4, 2} { // of cpu and memory: once, on two days, in two hours, once
		if len(rome[i].Rows) != want || len(oslo[i].Rows) != 0 {
			t.Errorf("query %d: %d rows of rome, want %d; %d of oslo", i, len(rome[i].Rows), want, len(oslo[i].Rows))
		}
	}
	if r := rome[1].Rows[0]; r.Tenant != "blue" || r.Reserved != "96" || r.Cost != "19.2" || r.To.Sub(r.From) != 24*time.Hour {
		t.Errorf("the first day is %+v", r)
	}
}

func TestStoredPeriodsAreReadOnceInATerm(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		f.reserveForDays("rome", "blue")
		time.Sleep(26*time.Hour + 10*time.Minute)
		synctest.Wait()
		first, store, deleted := f.costs("rome"), f.server.Client(), 0
		for _, span := range []accounts.Span{accounts.Hour, accounts.Day} {
			objects, err := store.List(context.Background(), replay.PeriodLabels(span))
			runtest.Check(t, err)
			for _, obj := range objects {
				runtest.Check(t, store.Delete(context.Background(), obj.Name))
				deleted++
			}
		}
		if again := f.costs("rome"); deleted == 0 || again != first {
			t.Errorf("after %d stored periods were deleted (-first +again):\n%s", deleted, cmp.Diff(first, again))
		}
	})
}

func TestCostsOfImpossibleTimesAreRefused(t *testing.T) {
	inFleet(t, func(f *fleet) {
		day := time.Date(1999, time.December, 1, 0, 0, 0, 0, time.UTC)
		cases := map[string]v1.ListCostsParams{
			"half an hour":        {From: day.Add(30 * time.Minute)},
			"days from noon":      {From: day.Add(12 * time.Hour), Period: new(v1.ListCostsParamsPeriod("day"))},
			"an end before":       {From: day, To: day.AddDate(0, 0, -1)},
			"forty days by hours": {From: day, Period: new(v1.ListCostsParamsPeriod("hour"))},
			"years by days":       {From: day.AddDate(-3, 0, 0), Period: new(v1.ListCostsParamsPeriod("day"))},
			"all history":         {From: day.AddDate(-1999, 0, 0)},
		}
		time.Sleep(10 * 24 * time.Hour)
		f.advertise("paris", "16", "64Gi")
		for name, q := range cases {
			if _, err := f.ListCosts(context.Background(), "rome", &q); fault.ReasonOf(err) != fault.Invalid {
				t.Errorf("%s: got %v, want that it is refused", name, err)
			}
		}
	})
}
