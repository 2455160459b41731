package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	consumer = v1.StatusReportRoleConsumer
	provider = v1.StatusReportRoleProvider
)

func TestLifeOfAReservation(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))

		if r.Phase != v1.ReservationPhaseReserved || target(r) != "paris" {
			t.Fatalf("got %s on %s, want Reserved on paris", r.Phase, target(r))
		}
		f.wantAvailable("paris", "14 60Gi")
		if in := r.Instruction; in.ProviderEndpoint != "https://paris.example:6443" || in.State != v1.InstructionStateHold {
			t.Errorf("instruction %+v", in)
		}

		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		f.wantPhases("Active paris", r)

		f.release("rome", "request-1")
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
		f.wantAvailable("paris", "14 60Gi")
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.wantAvailable("paris", "16 64Gi")
		f.wantPhases("Released", r)
	})
}

func TestOneKeyOneReservation(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		first := f.reserve("rome", "request-1", request("2", "4Gi"))
		again := f.reserve("rome", "request-1", request("2", "4Gi"))
		if first.Name != again.Name {
			t.Errorf("the same key gave %s and %s", first.Name, again.Name)
		}
		f.wantRefusal("rome", "request-1", request("3", "4Gi"), fault.KeyReused)
		if other := f.reserve("berlin", "request-1", request("2", "4Gi")); other.Name == first.Name {
			t.Error("two clusters share a key's reservation")
		}
	})
}

func TestRequestAfterItsReleaseReservesNothing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		for range 2 {
			r, err := f.ReleaseReservation(context.Background(), "rome", "request-1", "")
			if r != nil || err != nil {
				t.Fatalf("releasing an unknown key: %v, %v", r, err)
			}
		}
		f.wantRefusal("rome", "request-1", request("2", "4Gi"), fault.Released)
		f.wantAvailable("paris", "16 64Gi")
	})
}

func TestRefusalSaysWhyForEveryClusterButTheRequester(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi")
		_, err := f.RequestReservation(context.Background(), "rome", "request-1", request("100", "4Gi"))
		if fault.ReasonOf(err) != fault.NoCandidate {
			t.Fatalf("got %v, want NoCandidate", err)
		}
		for id, listed := range map[string]bool{"rome": false, "paris": true, "berlin": true} {
			if strings.Contains(err.Error(), id+": ") != listed {
				t.Errorf("%s is listed: %t, want %t in %q", id, !listed, listed, err)
			}
		}
		if diff := cmp.Diff(map[string]int32{"Self": 1, "InsufficientResource": 2}, err.(*fault.Error).Rejected); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
	})
}

func TestFailedPlacementIsFollowedByNextBest(t *testing.T) {
	tests := map[string]func(f *fleet, r *v1.Reservation){
		"the provider refuses": func(f *fleet, r *v1.Reservation) {
			f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
		},
		"the provider does not answer": func(*fleet, *v1.Reservation) {
			time.Sleep(limits.Acknowledge)
		},
		"the node never becomes Ready": func(f *fleet, r *v1.Reservation) {
			f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
			time.Sleep(limits.Ready / 2)
			f.advertise("rome", "4", "8Gi")
			f.advertise("berlin", "8", "16Gi")
			time.Sleep(limits.Ready / 2)
		},
		"the provider does not answer the broker that came back": func(f *fleet, _ *v1.Reservation) {
			time.Sleep(time.Second)
			f.kill()
			time.Sleep(limits.Acknowledge / 2)
			f.fetch("paris")
			time.Sleep(limits.Acknowledge)
		},
		"the provider never comes back to the broker that did": func(f *fleet, _ *v1.Reservation) {
			time.Sleep(time.Second)
			f.kill()
			time.Sleep(staleAfter - time.Second)
			f.advertise("berlin", "8", "16Gi")
			time.Sleep(time.Second)
		},
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("rome", "4", "8Gi")
				f.advertise("paris", "16", "64Gi")
				f.advertise("berlin", "8", "16Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "4", "memory": "8Gi"} })
				r := f.reserve("rome", "request-1", request("2", "4Gi"))
				happens(f, r)
				synctest.Wait()
				r = f.get("rome", r.Name)
				if len(r.Placements) != 2 || target(r) != "berlin" || r.Phase != v1.ReservationPhaseReserved {
					t.Fatalf("got %s with placements %+v, want a second one on berlin", r.Phase, r.Placements)
				}
				if state := r.Placements[0].State; state != v1.PlacementStateGone {
					f.wantAvailable("paris", "14 60Gi")
					f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
				}
				f.wantAvailable("paris", "16 64Gi")
			})
		})
	}
}

// The time to acknowledge begins once the provider's agent has reached the restarted broker, and
// the time to become Ready begins anew with the restart. So nothing is given up because of an
// outage.
func TestReturnedBrokerWaitsForClustersWithNews(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "4", "memory": "8Gi"} })
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		for range 3 {
			time.Sleep(limits.Acknowledge - time.Second)
			f.kill()
		}
		time.Sleep(4 * limits.Acknowledge)
		f.fetch("paris")
		time.Sleep(limits.Acknowledge - time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.kill()
		time.Sleep(limits.Ready - time.Second)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseActive || len(got.Placements) != 1 {
			t.Errorf("got %s with placements %+v, want the first one Active", got.Phase, got.Placements)
		}
	})
}

func TestReservationWithoutProviderFails(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
		got := f.get("rome", r.Name)
		if got.Phase != v1.ReservationPhaseFailed || got.EndReason != v1.ReservationEndReasonFailed || !strings.Contains(got.Message, "paris") {
			t.Errorf("got %s because of %s: %s", got.Phase, got.EndReason, got.Message)
		}
	})
}

func TestExpiryComesAtItsInstantAndNeverBefore(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		req := request("2", "4Gi")
		req.DurationSeconds = 60
		r := f.reserve("rome", "request-1", req)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(time.Minute - time.Nanosecond)
		f.wantPhases("Reserved paris", r)
		time.Sleep(time.Nanosecond)
		f.wantPhases("Releasing", r)
	})
}

func TestRenewalKeepsReservationWithoutDuration(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		for range 10 {
			time.Sleep(time.Duration(r.RenewSeconds * float64(time.Second)))
			r = f.reserve("rome", "request-1", request("2", "4Gi"))
		}
		if r.Phase != v1.ReservationPhaseReserved {
			t.Fatalf("phase %s while renewed, want Reserved", r.Phase)
		}
		if left := r.LeaseSeconds; left == nil || *left < (lease-renewEvery/2).Seconds() || *left > lease.Seconds() {
			t.Errorf("%v s are left of the lease", left)
		}
		time.Sleep(lease + time.Second)
		f.wantPhases("Releasing", r)
	})
}

func TestReturnedBrokerGivesTimeToRenew(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.stop()
		time.Sleep(3 * lease)
		f.start()
		time.Sleep(time.Minute)
		f.wantPhases("Reserved paris", r)
	})
}

func TestRestartKeepsState(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		before := f.get("rome", r.Name)
		f.kill()
		if diff := cmp.Diff(before, f.get("rome", r.Name)); diff != "" {
			t.Errorf("after the restart (-before +after):\n%s", diff)
		}
		if again := f.reserve("rome", "request-1", request("2", "4Gi")); again.Name != r.Name {
			t.Errorf("the key gave %s after the restart, want %s", again.Name, r.Name)
		}
		f.wantAvailable("paris", "14 60Gi")
	})
}

func TestNoGrantWithoutJournal(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		f.store.Inject(func(journaltest.Call) journaltest.Fault { return journaltest.Refused })
		for range 3 {
			f.wantRefusal("rome", "request-1", request("2", "4Gi"), fault.Unavailable)
		}
		f.store.Inject(nil)
		time.Sleep(2 * reopenDelay)
		synctest.Wait()
		f.wantAvailable("paris", "16 64Gi")
		f.reserve("rome", "request-1", request("2", "4Gi"))
	})
}

func TestRejectedAdvertisementCanBeRepeated(t *testing.T) {
	inFleet(t, func(f *fleet) {
		adv := &v1.Advertisement{ClusterID: "paris", Epoch: 1, Sequence: 1, Capacity: v1.Amounts{"cpu": "4"}, Allocatable: v1.Amounts{"cpu": "4"}}
		f.store.Inject(func(journaltest.Call) journaltest.Fault { return journaltest.Refused })
		if _, err := f.PublishAdvertisement(context.Background(), "paris", adv); fault.ReasonOf(err) != fault.Unavailable {
			t.Fatalf("got %v, want Unavailable", err)
		}
		f.store.Inject(nil)
		time.Sleep(2 * reopenDelay)
		synctest.Wait()
		receipt, err := f.PublishAdvertisement(context.Background(), "paris", adv)
		if err != nil || receipt.Available["cpu"] != "4" {
			t.Errorf("got %+v, %v", receipt, err)
		}
	})
}

func TestSilentClusterGetsNothingNew(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		f.reserve("rome", "request-1", request("1", "1Gi"))
		time.Sleep(staleAfter)
		synctest.Wait()
		_, err := f.RequestReservation(context.Background(), "rome", "request-2", request("1", "1Gi"))
		if fault.ReasonOf(err) != fault.NoCandidate || err.(*fault.Error).Rejected["Stale"] != 1 {
			t.Fatalf("got %v, want a refusal because paris is stale", err)
		}
		f.advertise("paris", "16", "64Gi")
		f.reserve("rome", "request-2", request("1", "1Gi"))
	})
}

func TestOnlyLatestOfferCounts(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "100", "64Gi")
		// The change is too small for a record in the journal, but the room no longer suffices.
		f.advertise("paris", "100", "64Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "1"} })
		f.wantRefusal("rome", "request-1", request("100", "1Gi"), fault.NoCandidate)
		f.reserve("rome", "request-1", request("99", "1Gi"))
		// A small increase of the room counts at once as well.
		f.advertise("paris", "100", "64Gi")
		f.reserve("rome", "request-2", request("1", "1Gi"))
	})
}

func TestUsageOfReservationsIsNotSubtractedTwice(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("4", "8Gi"))
		uses := func(cpu string) func(*v1.Advertisement) {
			return func(a *v1.Advertisement) {
				a.Usage = []v1.Usage{{Reservation: r.Name, Placement: 1, Used: v1.Amounts{"cpu": cpu}}}
			}
		}
		f.advertise("paris", "16", "64Gi", uses("3"))
		f.wantAvailable("paris", "12 56Gi")
		f.advertise("paris", "16", "64Gi", uses("6"))
		f.wantAvailable("paris", "10 56Gi")
	})
}

func TestInvalidRequestIsRefused(t *testing.T) {
	many := v1.Amounts{}
	for i := range requests.MaxResources + 1 {
		many[fmt.Sprintf("example.com/r%d", i)] = "1"
	}
	tests := map[string]*v1.ReservationRequest{
		"nothing":             {},
		"only zeros":          {Resources: v1.Amounts{"cpu": "0", "memory": "0e5"}},
		"a negative amount":   {Resources: v1.Amounts{"cpu": "-1"}},
		"no quantity":         {Resources: v1.Amounts{"cpu": "many"}},
		"an absurd exponent":  {Resources: v1.Amounts{"cpu": "1e999999999"}},
		"half a GPU":          {Resources: v1.Amounts{"nvidia.com/gpu": "500m"}},
		"too many kinds":      {Resources: many},
		"a second's duration": {Resources: v1.Amounts{"cpu": "1"}, DurationSeconds: 1},
	}
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		for name, req := range tests {
			if _, err := f.RequestReservation(context.Background(), "rome", "request-1", req); fault.ReasonOf(err) != fault.Invalid {
				t.Errorf("%s: got %v, want Invalid", name, err)
			}
		}
	})
}

func TestIdentityIsTheCallersAlone(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		tests := map[string]struct {
			call func() error
			want fault.Reason
		}{
			"advertising another cluster": {func() error {
				_, err := f.PublishAdvertisement(context.Background(), "berlin", &v1.Advertisement{ClusterID: "paris"})
				return err
			}, fault.Forbidden},
			"asking for another cluster": {func() error {
				q := request("1", "1Gi")
				q.RequesterID = "rome"
				_, err := f.RequestReservation(context.Background(), "berlin", "request-1", q)
				return err
			}, fault.Forbidden},
			"reading what others have": {func() error {
				_, err := f.GetReservation(context.Background(), "berlin", r.Name)
				return err
			}, fault.NotFound},
			"a provider releasing": {func() error {
				_, err := f.ReleaseReservation(context.Background(), "paris", r.Name, "")
				return err
			}, fault.Forbidden},
			"acknowledging for another cluster": {func() error {
				return f.report("berlin", r, 1, provider, v1.StatusReportStateAcknowledged)
			}, fault.NotFound},
			"a consumer acknowledging": {func() error {
				return f.report("rome", r, 1, consumer, v1.StatusReportStateAcknowledged)
			}, fault.Invalid},
			"gone though it stands": {func() error {
				return f.report("paris", r, 1, provider, v1.StatusReportStateGone)
			}, fault.Conflict},
			"writing to a cluster that shares nothing": {func() error {
				return f.SendMessage(context.Background(), "berlin", &v1.Message{To: "paris", Slot: "x", Body: []byte("x")})
			}, fault.Forbidden},
		}
		for name, test := range tests {
			if err := test.call(); fault.ReasonOf(err) != test.want {
				t.Errorf("%s: got %v, want %s", name, err, test.want)
			}
		}
	})
}

func TestLongPollReturnsNews(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		list, err := f.FetchInstructions(context.Background(), "paris", "", 0)
		if err != nil || len(list.Instructions) != 0 {
			t.Fatalf("got %+v, %v", list, err)
		}
		cursor := list.Cursor
		began := time.Now()
		got := make(chan *v1.InstructionList)
		go func() {
			list, _ := f.FetchInstructions(context.Background(), "paris", cursor, time.Minute)
			got <- list
		}()
		synctest.Wait()
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		list = <-got
		if len(list.Instructions) != 1 || list.Instructions[0].Reservation != r.Name || list.Instructions[0].Role != v1.InstructionRoleProvider {
			t.Fatalf("got %+v", list)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the news took %s", waited)
		}
		list, err = f.FetchInstructions(context.Background(), "paris", list.Cursor, time.Second)
		if err != nil || len(list.Instructions) != 0 {
			t.Errorf("told twice: %+v, %v", list, err)
		}
		for name, cursor := range map[string]string{"another journal": "other:99", "ahead of the head": strings.Split(list.Cursor, ":")[0] + ":9999", "nonsense": "??"} {
			list, err := f.FetchInstructions(context.Background(), "paris", cursor, 0)
			if err != nil || len(list.Instructions) != 1 {
				t.Errorf("cursor of %s: got %+v, %v", name, list, err)
			}
		}
	})
}

func TestMessagesReachTheirReceiver(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		f.reserve("rome", "request-1", request("2", "4Gi"))
		send := func(body string) {
			runtest.Check(t, f.SendMessage(context.Background(), "paris", &v1.Message{From: "forged", To: "rome", Slot: "step-1", Body: []byte(body)}))
		}
		send("first")
		send("second")
		list, err := f.ReceiveMessages(context.Background(), "rome", "", 0)
		want := []v1.Message{{From: "paris", To: "rome", Slot: "step-1", Body: []byte("second")}}
		if diff := cmp.Diff(want, list.Messages); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		list, err = f.ReceiveMessages(context.Background(), "rome", list.Cursor, time.Second)
		if err != nil || len(list.Messages) != 0 {
			t.Errorf("told twice: %+v, %v", list, err)
		}
	})
}

func TestEndedReservationsAreForgotten(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		f.release("rome", r.Name)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		time.Sleep(retain + time.Second)
		synctest.Wait()
		if _, err := f.GetReservation(context.Background(), "rome", r.Name); fault.ReasonOf(err) != fault.NotFound {
			t.Errorf("got %v, want NotFound", err)
		}
	})
}
