package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/quotes"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// held returns a copy of a request that asks for a quote which is held for some seconds.
func held(seconds int64, req *v1.ReservationRequest) *v1.ReservationRequest {
	out := *req
	out.HoldSeconds = seconds
	return &out
}

// taking returns a copy of a request that takes a quote over.
func taking(q *v1.Quote, req *v1.ReservationRequest) *v1.ReservationRequest {
	out := *req
	out.HoldSeconds, out.Quote = 0, q.Name
	return &out
}

func (f *fleet) hold(id, key string, req *v1.ReservationRequest) *v1.Quote {
	f.t.Helper()
	quote, err := f.RequestQuote(context.Background(), id, key, req)
	if err != nil || quote.Name == "" {
		f.t.Fatalf("a quote for %s is not held: %+v, %v", id, quote, err)
	}
	return quote
}

func (f *fleet) wantAvailable(id, want string) {
	f.t.Helper()
	if got := f.available(id); got != want {
		f.t.Errorf("%s has %s left, want %s", id, got, want)
	}
}

func TestHeldQuoteIsTakenOver(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "16Gi", func(a *v1.Advertisement) { a.Cost = v1.Cost{CPUCost: "0.2", Currency: "EUR"} })
		f.advertise("berlin", "4", "8Gi", priced("0.1", "EUR"))
		req := with(func(r *v1.ReservationRequest) {
			r.Resources, r.DurationSeconds = v1.Amounts{"cpu": "6", "memory": "1Gi"}, 7200
		})
		quote := f.hold("rome", "quote-01", held(60, req))
		if quote.ClusterID != "paris" || quote.PriceTotal != "2.4" || !slices.Equal(quote.NotPriced, []string{"memory"}) || quote.RemainingSeconds != 60 || time.Until(quote.HeldUntil).Round(time.Second) != time.Minute {
			t.Errorf("got %+v", quote)
		}
		f.wantAvailable("paris", "2 15Gi")
		f.wantRefusal("milan", "request-1", req, fault.NoCandidate)
		if list := f.poll("paris", ""); len(list.Instructions) != 0 {
			t.Errorf("paris is told of it: %+v", list.Instructions)
		}
		// Another cluster would be chosen at this point, and paris has no room beside its own pods.
		f.advertise("oslo", "64", "64Gi", priced("0.01", "EUR"))
		f.advertise("paris", "8", "16Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "8"} })
		r := f.reserve("rome", "request-1", taking(quote, req))
		if won := candidate(t, r, "paris"); target(r) != "paris" || won.PricePerHour != "1.2" || !slices.Equal(won.NotPriced, quote.NotPriced) {
			t.Errorf("granted on %s, explained as %+v", target(r), won)
		}
		if again := f.reserve("rome", "request-1", taking(quote, req)); again.Name != r.Name {
			t.Errorf("repeated, it is %s, before %s", again.Name, r.Name)
		}
		f.advertise("paris", "8", "16Gi")
		f.reserve("milan", "request-2", onParis("2", "1Gi"))
		f.wantAvailable("paris", "0 14Gi")
		time.Sleep(2 * time.Minute)
		f.advertise("paris", "8", "16Gi")
		f.wantAvailable("paris", "0 14Gi")
	})
}

func TestHeldQuoteEndsExactlyOnTime(t *testing.T) {
	ends := map[string]struct {
		meanwhile func(f *fleet)
		after     time.Duration
	}{
		"its time is over":            {func(*fleet) {}, time.Minute},
		"the broker is killed":        {func(f *fleet) { f.kill() }, time.Minute},
		"the broker is away too long": {func(f *fleet) { f.store.Stop(); f.stop(); time.Sleep(59 * time.Second); f.start() }, time.Minute},
	}
	for name, tc := range ends {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "8", "16Gi")
				began := time.Now()
				req := request("8", "1Gi")
				quote := f.hold("rome", "quote-01", held(60, req))
				tc.meanwhile(f)
				time.Sleep(time.Until(began.Add(tc.after)) - time.Millisecond)
				synctest.Wait()
				f.wantAvailable("paris", "0 15Gi")
				time.Sleep(time.Second)
				synctest.Wait()
				f.wantAvailable("paris", "8 16Gi")
				no := f.wantRefusal("rome", "request-1", taking(quote, req), fault.Released)
				if !strings.Contains(no.Detail, "was held until "+quote.HeldUntil.UTC().Format(time.RFC3339)) {
					t.Error(no.Detail)
				}
			})
		})
	}
}

func TestOneKeyOneHeldQuote(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "16Gi", priced("0.2", "EUR"))
		req := with(func(r *v1.ReservationRequest) {
			r.Resources, r.DurationSeconds = v1.Amounts{"cpu": "2", "memory": "1Gi"}, 3600
		})
		first := f.hold("rome", "quote-01", held(60, req))
		f.kill()
		if diff := cmp.Diff(first, f.hold("rome", "quote-01", held(60, req)), cmpopts.IgnoreFields(v1.Quote{}, "RemainingSeconds")); diff != "" {
			t.Errorf("repeated after a crash (-first +second):\n%s", diff)
		}
		f.wantAvailable("paris", "6 15Gi")
		for name, other := range map[string]*v1.ReservationRequest{"another time": held(61, req), "another amount": held(60, request("1", "1Gi"))} {
			if _, err := f.RequestQuote(context.Background(), "rome", "quote-01", other); fault.ReasonOf(err) != fault.KeyReused {
				t.Errorf("%s under the same key: %v", name, err)
			}
		}
		f.hold("milan", "quote-01", held(60, req))
		f.reserve("rome", "quote-01", request("1", "1Gi")) // reservations have separate keys
		f.wantAvailable("paris", "3 13Gi")
		for range 2 {
			runtest.Check(t, f.ReleaseQuote(context.Background(), "rome", "quote-01"))
		}
		f.wantAvailable("paris", "5 14Gi")
		runtest.Check(t, f.ReleaseQuote(context.Background(), "rome", "quote-02"))
		for key, want := range map[string]string{"quote-01": "was released", "quote-02": "released before"} {
			if _, err := f.RequestQuote(context.Background(), "rome", key, held(60, req)); fault.ReasonOf(err) != fault.Released || !strings.Contains(err.Error(), want) {
				t.Errorf("%s after it was given back: %v", key, err)
			}
		}
	})
}

// The clock goes on between the decision and the record of it, so agents that ask again must not be told that the
// hold differs.
func TestHeldQuoteIsRepeatedWhileTheClockRuns(t *testing.T) {
	inFleet(t, func(f *fleet) {
		var reads atomic.Int64
		f.restartWithClock(func() time.Time { return time.Now().Add(time.Duration(reads.Add(1)) * time.Microsecond) })
		f.advertise("paris", "8", "16Gi")
		first := f.hold("rome", "quote-01", held(60, request("1", "1Gi")))
		if again := f.hold("rome", "quote-01", held(60, request("1", "1Gi"))); again.Name != first.Name {
			t.Errorf("repeated, it is %s, before %s", again.Name, first.Name)
		}
	})
}

func TestHeldQuoteRefusals(t *testing.T) {
	req := with(func(r *v1.ReservationRequest) { r.DurationSeconds = 3600 })
	changed := func(change func(*v1.ReservationRequest)) *v1.ReservationRequest {
		out := *req
		change(&out)
		return &out
	}
	takes := map[string]struct {
		by   string
		req  *v1.ReservationRequest
		want fault.Reason
		says string
	}{
		"by another cluster": {"milan", req, fault.NotFound, `does not belong to cluster "milan"`},
		"for more":           {"rome", changed(func(r *v1.ReservationRequest) { r.Resources = v1.Amounts{"cpu": "3", "memory": "1Gi"} }), fault.Conflict, "resources cpu=3 memory=1Gi instead of cpu=1 memory=1Gi"},
		"for longer":         {"rome", changed(func(r *v1.ReservationRequest) { r.DurationSeconds = 7200 }), fault.Conflict, "duration 2h0m0s instead of 1h0m0s"},
		"on another cluster": {"rome", changed(func(r *v1.ReservationRequest) { r.TargetClusterID = "berlin" }), fault.Conflict, `targetClusterID "berlin" instead of ""`},
		"with other terms":   {"rome", changed(func(r *v1.ReservationRequest) { r.Group = "web" }), fault.Conflict, `group "web" instead of ""`},
		"to be held again":   {"rome", changed(func(r *v1.ReservationRequest) { r.HoldSeconds = 5 }), fault.Invalid, "only a quote is held"},
		"with what is its own": {"rome", changed(func(r *v1.ReservationRequest) {
			r.Priority, r.Tenant, r.QueuePolicy = 7, "blue", v1.ReservationRequestQueuePolicyQueue
		}), "", ""},
	}
	for name, tc := range takes {
		t.Run("taken over "+name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "8", "16Gi")
				take := *tc.req
				take.Quote = f.hold("rome", "quote-01", held(60, req)).Name
				_, err := f.RequestReservation(context.Background(), tc.by, "request-1", &take)
				if fault.ReasonOf(err) != tc.want || tc.want != "" && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want %s with %q", err, tc.want, tc.says)
				}
			})
		})
	}
	asked := map[string]struct {
		key string
		req *v1.ReservationRequest
	}{
		"without a key":   {"", held(60, req)},
		"for too long":    {"quote-01", held(301, req)},
		"for less than 0": {"quote-01", held(-1, req)},
		"of a quote":      {"quote-01", changed(func(r *v1.ReservationRequest) { r.HoldSeconds, r.Quote = 60, "quo-1" })},
	}
	for name, tc := range asked {
		t.Run("asked "+name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "8", "16Gi")
				if _, err := f.RequestQuote(context.Background(), "rome", tc.key, tc.req); fault.ReasonOf(err) != fault.Invalid {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestHeldQuotesAreLimited(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "64", "64Gi")
		req := request("1", "1Gi")
		for i := range quotes.MaxHeld {
			f.hold("rome", fmt.Sprint("quote-", i), held(int64(60+i), req))
		}
		_, err := f.RequestQuote(context.Background(), "rome", "quote-more", held(60, req))
		if no, ok := errors.AsType[*fault.Error](err); !ok || no.Reason != fault.TooManyRequests || no.RetryAfter.Round(time.Second) != time.Minute {
			t.Errorf("one more: %+v", err)
		}
		f.quote(req)
		f.hold("milan", "quote-0", held(60, req))
		time.Sleep(time.Minute + time.Second)
		f.hold("rome", "quote-more", held(60, req))
	})
}

// If no cluster fits, the quote is not held, and its key is free.
func TestNoQuoteIsHeldWhereNothingFits(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "1", "1Gi")
		quote, err := f.RequestQuote(context.Background(), "rome", "quote-01", held(60, request("8", "1Gi")))
		if err != nil || quote.Name != "" || !quote.HeldUntil.IsZero() || quote.Message == "" {
			t.Errorf("got %+v, %v", quote, err)
		}
		f.advertise("paris", "8", "8Gi")
		f.hold("rome", "quote-01", held(60, request("8", "1Gi")))
	})
}

func TestHoldsAndTheQueue(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "3"} })
		first := f.reserve("rome", "request-1", waiting("2", "1Gi"))
		// The broker knows of the free capacity, but has not recorded this small change yet.
		f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "2"} })
		if quote, err := f.RequestQuote(context.Background(), "milan", "quote-01", held(60, request("2", "1Gi"))); err != nil || quote.Name != "" {
			t.Errorf("it overtakes who waits: %+v, %v", quote, err)
		}
		f.wantPhases("Reserved paris", first)

		f.advertise("paris", "4", "8Gi")
		f.hold("milan", "quote-02", held(60, request("2", "1Gi")))
		second, third := f.reserve("rome", "request-2", waiting("1", "1Gi")), f.reserve("rome", "request-3", waiting("1", "1Gi"))
		f.wantPhases("Queued 1, Queued 2", second, third)
		time.Sleep(time.Minute + time.Second)
		f.wantPhases("Reserved paris, Reserved paris", second, third)
	})
}

// A held quote is never preempted. The reservation that takes it over may be.
func TestHeldQuoteIsNotPreempted(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("paris", "4", "8Gi")
		quote := f.hold("milan", "quote-01", held(60, request("4", "1Gi")))
		r := f.reserve("rome", "request-1", waiting("4", "1Gi", priority(9)))
		time.Sleep(30 * time.Second)
		f.wantPhases("Queued 1", r)
		taken := f.reserve("milan", "request-1", taking(quote, request("4", "1Gi")))
		if f.get("milan", taken.Name).Notice == nil {
			t.Error("what was taken over makes room for nobody")
		}
	})
}

func TestQuotesOfDeniedClustersEnd(t *testing.T) {
	for _, id := range []string{"rome", "paris"} {
		t.Run(id, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "4", "8Gi")
				quote := f.hold("rome", "quote-01", held(60, request("4", "1Gi")))
				f.set(func(c *settings.Config) {
					c.Access = access.PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{id}})
				})
				synctest.Wait()
				f.wantAvailable("paris", "4 8Gi")
				f.SetConfig(context.Background(), settings.Default())
				f.wantRefusal("rome", "request-1", taking(quote, request("4", "1Gi")), fault.Released)
			})
		})
	}
}

// Anti-affinity separates held quotes of one requester as it separates reservations.
func TestHeldQuotesKeepTheirDistance(t *testing.T) {
	inFleet(t, func(f *fleet) {
		for id, cpu := range map[string]string{"paris": "64", "berlin": "32"} {
			f.advertise(id, cpu, "64Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "2"} })
		}
		req := with(func(r *v1.ReservationRequest) {
			r.Group, r.Constraints = "web", &v1.Constraints{AntiAffinity: []string{"web"}}
		})
		first, second := f.hold("rome", "quote-01", held(60, req)), f.hold("rome", "quote-02", held(60, req))
		if first.ClusterID != "paris" || second.ClusterID != "berlin" {
			t.Errorf("held on %s and %s", first.ClusterID, second.ClusterID)
		}
		waits := *req
		waits.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
		third := f.reserve("rome", "request-3", &waits)
		f.wantPhases("Queued 1", third)
		r := f.reserve("rome", "request-1", taking(first, req))
		runtest.Check(t, f.ReleaseQuote(context.Background(), "rome", second.Name))
		f.wantPhases("Reserved paris, Reserved berlin", r, third)
	})
}

// A provider advertises capacity that is held but not in use yet as free on its nodes, so the
// broker itself must subtract the held pods.
func TestHeldPodShapesDoNotShareANode(t *testing.T) {
	pods := func(count int32) *v1.ReservationRequest {
		return &v1.ReservationRequest{PodShapes: []v1.PodShape{{Count: count, Resources: v1.Amounts{"cpu": "3", "memory": "1Gi"}}}}
	}
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", nodes(v1.NodeShape{Count: 4, Free: v1.Amounts{"cpu": "4", "memory": "16Gi"}}))
		quote := f.hold("rome", "quote-01", held(60, pods(3)))
		f.wantRefusal("rome", "request-2", pods(2), fault.NoCandidate)
		f.reserve("rome", "request-1", taking(quote, pods(3)))
		f.wantRefusal("rome", "request-2", pods(2), fault.NoCandidate)
		f.reserve("rome", "request-3", pods(1))
	})
}

// A quote held before etcd was restored may have been taken over since, so it is no longer held.
func TestRestoredStateDropsHeldQuotes(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "8", "16Gi")
		req := request("6", "1Gi")
		quote := f.hold("rome", "quote-01", held(300, req))
		old := f.server.Clone()
		r := f.carriedOut("rome", f.reserve("rome", "request-1", taking(quote, req)))
		cursor := f.poll("rome", "").Cursor
		f.restore(old)
		f.poll("rome", cursor)
		f.advertise("paris", "8", "16Gi")
		f.announce("paris", provided(r, "rome"))
		f.announce("rome", nil, wanted(r, "request-1", taking(quote, req)))
		f.wantAvailable("paris", "2 15Gi")
		f.wantRefusal("rome", "request-2", taking(quote, req), fault.Released)
		if again := f.reserve("rome", "request-1", taking(quote, req)); again.Name != r.Name {
			t.Errorf("the same key has %s, before %s", again.Name, r.Name)
		}
	})
}
