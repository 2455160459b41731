package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// wantCost checks the cost that the requester is shown, except its AsOf.
func (f *fleet) wantCost(r *v1.Reservation, when string, want *v1.ReservationCost) {
	f.t.Helper()
	got := f.get(r.RequesterID, r.Name).Cost
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(v1.ReservationCost{}, "AsOf")); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// fourHours asks for 4 cores and 1 GiB for four hours. The helper priced sets only a price for
// cores.
func fourHours(r *v1.ReservationRequest) {
	r.Resources, r.DurationSeconds = v1.Amounts{"cpu": "4", "memory": "1Gi"}, 4*3600
}

func TestPriceIsLockedUntilTheEnd(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		r := f.reserve("rome", "request-1", with(fourHours))
		f.wantCost(r, "before the provider has acknowledged", &v1.ReservationCost{PerHour: "0.8", SoFar: "0", ToEnd: "3.2", Currency: "EUR"})
		time.Sleep(5 * time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		acknowledged := time.Now()
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		f.advertise("paris", "16", "64Gi", priced("0.9", "USD"))
		want := &v1.ReservationCost{PerHour: "0.8", SoFar: "0", ToEnd: "3.198888889", Currency: "EUR"}
		f.wantCost(r, "after the provider has changed its price", want)
		f.kill()
		f.wantCost(r, "after a restart", want)
		if got := f.get("rome", r.Name).Cost.AsOf; got == nil || !got.Time.Equal(acknowledged) {
			t.Errorf("cost as of %v, want %v", got, acknowledged)
		}
		time.Sleep(90*time.Minute - 5*time.Second)
		f.release("rome", "request-1")
		f.wantCost(r, "after 89 minutes and 55 seconds", &v1.ReservationCost{SoFar: "1.198888889", Currency: "EUR"})
	})
}

func TestProviderWithoutPriceCostsNothing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", with(fourHours))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.wantCost(r, "without a price", nil)
	})
}

// What was paid before stays, and what runs is not shown as free.
func TestMoveToAProviderWithoutPriceIsNotFree(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.1", "EUR"))
		r := f.reserve("rome", "request-1", with(fourHours))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.advertise("berlin", "16", "64Gi")
		time.Sleep(30 * time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.wantCost(r, "at a provider without a price", &v1.ReservationCost{SoFar: "0.003333333", Currency: "EUR", NotPriced: []string{"cpu", "memory"}})
	})
}

func TestHeldQuoteKeepsItsPrice(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		quote := f.hold("rome", "quote-01", held(60, with(fourHours)))
		f.advertise("paris", "16", "64Gi", priced("5", "EUR"))
		f.kill()
		r := f.reserve("rome", "request-1", taking(quote, with(fourHours)))
		f.wantCost(r, "taken over", &v1.ReservationCost{PerHour: "0.8", SoFar: "0", ToEnd: "3.2", Currency: "EUR"})
	})
}

func TestRefusedPlacementCostsNothing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.1", "EUR"))
		f.advertise("berlin", "16", "64Gi", priced("0.5", "USD"))
		r := f.reserve("rome", "request-1", with(fourHours))
		time.Sleep(time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.wantCost(r, "at the next provider", &v1.ReservationCost{PerHour: "2", SoFar: "0", ToEnd: "7.999444444", Currency: "USD"})
	})
}

func TestCostsInTwoCurrenciesAreNotAdded(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.1", "EUR"))
		f.advertise("berlin", "16", "64Gi", priced("0.5", "USD"))
		r := f.reserve("rome", "request-1", with(fourHours))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(30 * time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
		time.Sleep(3 * time.Second)
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.wantCost(r, "after 30 s at paris and 3 s of nothing", &v1.ReservationCost{
			PerHour: "2", SoFar: "0", ToEnd: "7.981666667", Currency: "USD",
			Earlier: []brokerv1alpha1.EarlierCost{{Amount: "0.003333333", Currency: "EUR"}},
		})
	})
}

func TestOnlyOneOfTwoPlacementsIsPaid(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi", priced("0.1", "EUR"))
		r := f.reserve("rome", "request-1", with(fourHours))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		began := time.Now()
		for len(f.get("rome", r.Name).Placements) < 2 {
			f.advertise("rome", "4", "8Gi")
			f.advertise("berlin", "16", "64Gi", priced("0.2", "EUR"))
			time.Sleep(5 * time.Second)
		}
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		if got := f.get("rome", r.Name); len(got.Placements) != 2 || got.Cost.PerHour != "0.4" {
			t.Fatalf("while two placements stand: %+v", got)
		}
		time.Sleep(time.Until(began.Add(3 * time.Minute)))
		f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
		synctest.Wait()
		// 180 s at 0.4 an hour, then 0.8 an hour.
		f.wantCost(r, "once berlin serves", &v1.ReservationCost{PerHour: "0.8", SoFar: "0.02", ToEnd: "3.18", Currency: "EUR"})
	})
}

func TestLeaseIsRepricedOncePerDay(t *testing.T) {
	tests := map[string]struct {
		most  string
		price string
		want  string
	}{
		"the price has risen":                      {"", "0.3", "1.2"},
		"it has fallen":                            {"", "0.1", "0.4"},
		"it is now above what the request accepts": {"1", "0.3", "0.8"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				asked := with(func(r *v1.ReservationRequest) {
					fourHours(r)
					r.DurationSeconds = 0
					if tc.most != "" {
						r.Constraints = &v1.Constraints{MaxPrice: &v1.Money{Amount: brokerv1alpha1.Price(tc.most), Currency: "EUR"}}
					}
				})
				f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
				r := f.reserve("rome", "request-1", asked)
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
				f.advertise("paris", "16", "64Gi", priced(tc.price, "EUR"))
				for hours := 8; hours <= 24; hours += 8 {
					f.wantCost(r, "within the first day", &v1.ReservationCost{PerHour: "0.8", SoFar: "0", Currency: "EUR"})
					time.Sleep(8 * time.Hour)
					f.advertise("paris", "16", "64Gi", priced(tc.price, "EUR"))
					f.reserve("rome", "request-1", asked)
				}
				got := f.get("rome", r.Name).Cost
				if got.PerHour != tc.want {
					t.Errorf("on the second day it costs %+v, want %s an hour", got, tc.want)
				}
				if repriced := tc.want != "0.8"; repriced != (got.SoFar == "19.2") {
					t.Errorf("the first day has cost %s", got.SoFar)
				}
			})
		})
	}
}
