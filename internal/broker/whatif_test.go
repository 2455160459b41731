package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/whatif"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// copyBook returns the book that results from a replay of the journal of the fleet's broker.
func (f *fleet) copyBook() *replay.Book {
	f.t.Helper()
	_, recovery, err := journal.Follow(context.Background(), f.server.Client(), JournalName, journal.Options{})
	runtest.Check(f.t, err)
	book, err := replay.Read(recovery)
	runtest.Check(f.t, err)
	return book
}

// member is a reservation of the fleet with its requester.
type member struct{ requester, name string }

// cooperate makes the agents send all reports that are due, until there are none left.
func (f *fleet) cooperate(all []member) {
	f.t.Helper()
	for acted := true; acted; synctest.Wait() {
		acted = false
		for _, m := range all {
			r := f.get(m.requester, m.name)
			for _, p := range r.Placements {
				switch p.State {
				case v1.PlacementStateAssigned:
					f.mustReport(p.ClusterID, r, int(p.Number), provider, v1.StatusReportStateAcknowledged)
				case v1.PlacementStateAcknowledged:
					f.mustReport(m.requester, r, int(p.Number), consumer, v1.StatusReportStateReady)
				case v1.PlacementStateWithdrawing:
					f.mustReport(m.requester, r, int(p.Number), consumer, v1.StatusReportStateGone)
					f.mustReport(p.ClusterID, r, int(p.Number), provider, v1.StatusReportStateGone)
				default:
					continue
				}
				acted = true
			}
		}
	}
}

// moment is a state of a reservation, and when it began.
type moment struct {
	State string
	At    time.Duration
}

// live lets the fleet live for a time d, and returns what happens to each reservation. The times in
// the result count from began. more maps the IDs of clusters that join to their cores.
func (f *fleet) live(all []member, began time.Time, d time.Duration, more map[string]string) [][]moment {
	f.t.Helper()
	out := make([][]moment, len(all))
	for second := 0; ; second++ {
		if second%20 == 0 {
			f.advertiseBut("nobody")
			for id, cpu := range more {
				f.advertise(id, cpu, "64Gi")
			}
		}
		f.cooperate(all)
		for i, m := range all {
			r := f.get(m.requester, m.name)
			state := "waits"
			switch last := len(r.Placements) - 1; {
			case r.EndReason != "":
				state = "ended: " + string(r.EndReason)
			case r.Queue == nil:
				state = "on " + r.Placements[last].ClusterID
			}
			if n := len(out[i]); n == 0 || out[i][n-1].State != state {
				out[i] = append(out[i], moment{state, time.Since(began)})
			}
		}
		if time.Since(began) >= d {
			return out
		}
		time.Sleep(time.Second)
	}
}

// momentsOf returns a course in the form in which live returns it: of several states that begin at
// the same time, only the last.
func momentsOf(c *whatif.Course, began time.Time) []moment {
	var out []moment
	for _, s := range c.Steps {
		state := "on " + s.Provider
		switch {
		case s.Waits:
			state = "waits"
		case s.Ended != "":
			state = "ended: " + string(s.Ended)
		}
		at := max(s.At.Sub(began), 0)
		if n := len(out); n > 0 && out[n-1].At == at {
			out = out[:n-1]
		}
		out = append(out, moment{state, at})
	}
	return out
}

// planned returns a plan for a time ahead, which begins with a copy of the fleet's book.
func (f *fleet) planned(ahead time.Duration) *WhatIf {
	f.t.Helper()
	synctest.Wait()
	w, err := NewWhatIf(f.copyBook(), f.Broker.config, time.Now(), ahead, nil)
	runtest.Check(f.t, err)
	return w
}

// populate makes random requests of rome and berlin, and returns those that were not refused.
func (f *fleet) populate(random *rand.Rand) (all []member) {
	f.pass(2*time.Minute, "nobody") // agents may not have reached a new leader yet, so it begins no recall
	for i := range 14 {
		req := lasting(time.Duration(2+random.IntN(25)) * time.Minute)
		req.Resources = v1.Amounts{"cpu": strconv.Itoa(1 + random.IntN(3)), "memory": "1Gi"}
		req.Priority = int32(random.IntN(3))
		if random.IntN(2) == 0 {
			req.QueuePolicy, req.QueueTimeoutSeconds = v1.ReservationRequestQueuePolicyQueue, int64(60*(1+random.IntN(20)))
		}
		if random.IntN(5) == 0 {
			req.TargetClusterID = "paris"
		}
		requester := "rome"
		if random.IntN(4) == 0 {
			requester = "berlin"
		}
		if r, err := f.RequestReservation(context.Background(), requester, fmt.Sprintf("request-%06d", i), req); err == nil {
			all = append(all, member{requester, r.Name})
		}
		time.Sleep(time.Duration(random.IntN(90)) * time.Second)
		f.advertiseBut("nobody")
	}
	f.cooperate(all)
	return all
}

// What a plan says happens, if the agents do their part and nothing else happens.
func TestPlanPredictsWhatHappens(t *testing.T) {
	const ahead, notice = 20 * time.Minute, 5 * time.Minute
	request := func() *v1.ReservationRequest {
		req := lasting(10 * time.Minute)
		req.Resources = v1.Amounts{"cpu": "3", "memory": "1Gi"}
		req.QueuePolicy, req.QueueTimeoutSeconds = v1.ReservationRequestQueuePolicyQueue, 900
		return req
	}
	plans := map[string]struct {
		plan  func(w *WhatIf) (asked string, err error)
		carry func(f *fleet) (asked string)
		more  map[string]string
	}{
		"a drain": {
			func(w *WhatIf) (string, error) { return "", w.Drain("paris", drains.Drain{Notice: notice}) },
			func(f *fleet) string { f.drains(&drains.Drain{Notice: notice}); return "" }, nil,
		},
		"a cordon": {
			func(w *WhatIf) (string, error) { return "", w.Drain("paris", drains.Drain{CordonOnly: true}) },
			func(f *fleet) string { f.drains(&drains.Drain{CordonOnly: true}); return "" }, nil,
		},
		"a new cluster": {
			func(w *WhatIf) (string, error) {
				amounts := amountsOf(v1.Amounts{"cpu": "5", "memory": "64Gi"})
				return "", w.Add(&ledger.Offer{ClusterID: "oslo", Capacity: amounts, Allocatable: amounts, Endpoint: endpointOf("oslo")})
			},
			func(*fleet) string { return "" }, map[string]string{"oslo": "5"},
		},
		"a request": {
			func(w *WhatIf) (string, error) {
				q, err := requests.Read("rome", "another-key-0001", request())
				if err != nil {
					return "", err
				}
				return w.Ask(q)
			},
			func(f *fleet) string { return f.reserve("rome", "another-key-0001", request()).Name }, nil,
		},
	}
	seeds := uint64(10)
	if testing.Short() {
		seeds = 4
	}
	for name, c := range plans {
		for seed := range seeds {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				inFleet(t, func(f *fleet) {
					f.set(func(c *settings.Config) {
						c.Preemption = queueing.PreemptionConfig{LowerPriority: seed%2 == 0, Grace: time.Minute}
					})
					all := f.populate(rand.New(rand.NewPCG(seed, 0)))
					began, w := time.Now(), f.planned(ahead)
					asked, err := c.plan(w)
					if err == nil {
						err = w.Run()
					}
					runtest.Check(t, err)
					var want [][]moment
					for _, m := range all {
						want = append(want, momentsOf(w.CourseOf(m.name), began))
					}
					if asked != "" {
						want = append(want, momentsOf(w.CourseOf(asked), began))
					}
					if asked = c.carry(f); asked != "" {
						all = append(all, member{"rome", asked})
					}
					// The fleet's agents act every second.
					near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() <= 2*time.Second })
					if diff := cmp.Diff(want, f.live(all, began, ahead, c.more), near); diff != "" {
						t.Errorf("(-planned +happened):\n%s", diff)
					}
				})
			})
		}
	}
}

func TestPlanNamesOnlyWhatItChanges(t *testing.T) {
	inFleet(t, func(f *fleet) {
		moves := f.servedByParis()
		stays := f.carriedOut("rome", f.reserve("rome", "request-2", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}, TargetClusterID: "berlin"}))
		without, with := f.planned(10*time.Minute), f.planned(10*time.Minute)
		runtest.Check(t, with.Drain("paris", drains.Drain{Notice: 10 * time.Minute}))
		for _, w := range []*WhatIf{without, with} {
			runtest.Check(t, w.Run())
		}
		affected := without.AffectedBy(with.Simulation)
		if len(affected) != 1 || affected[0].With.Reservation != moves.Name {
			t.Fatalf("affected is %+v, want only %s and not %s", affected, moves.Name, stays.Name)
		}
		if diff := cmp.Diff([]moment{{"on berlin", 0}}, momentsOf(affected[0].With, time.Now())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		before, after := without.Totals(), with.Totals()
		if before.Served != 2 || after.Served != 2 || before.Lendable["cpu"] != 32_000 || after.Lendable["cpu"] != 16_000 {
			t.Errorf("totals are %+v without the plan, and %+v with it", before, after)
		}
	})
}

func TestPlanOfAnUnknownOrKnownClusterIsRefused(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertiseBut("nobody")
		w := f.planned(time.Minute)
		if err := w.Drain("lyon", drains.Drain{}); err == nil || err.Error() != `no cluster "lyon" has advertised: choose one of berlin, paris, rome` {
			t.Errorf("draining lyon: %v", err)
		}
		if err := w.Add(&ledger.Offer{ClusterID: "paris"}); err == nil || err.Error() != `cluster "paris" takes part already: choose the ID of a new one` {
			t.Errorf("adding paris: %v", err)
		}
	})
}

// A plan needs no approval of the added cluster, because the author of the plan is the
// administrator, who can also approve the cluster.
func TestPlannedClusterNeedsNoApproval(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertiseBut("nobody")
		f.allow(brokerv1alpha1.BrokerConfigSpec{
			Admission: brokerv1alpha1.AdmissionApproved, ApprovedClusters: []brokerv1alpha1.ApprovedCluster{{ClusterID: "rome"}},
			DeniedClusters: []string{"evil"},
		})
		amounts := amountsOf(v1.Amounts{"cpu": "32", "memory": "64Gi"})
		w := f.planned(time.Minute)
		if err := w.Add(&ledger.Offer{ClusterID: "evil", Capacity: amounts, Allocatable: amounts}); fault.ReasonOf(err) != fault.ClusterDenied {
			t.Errorf("adding a denied cluster: %v", err)
		}
		runtest.Check(t, w.Add(&ledger.Offer{ClusterID: "oslo", Capacity: amounts, Allocatable: amounts}))
		name, err := w.Ask(&requests.Request{Request: ledger.Request{Requester: "rome", Key: "planned-1", Amounts: amounts}})
		if err != nil || w.CourseOf(name).Steps[0].Provider != "oslo" {
			t.Errorf("rome gets %+v, %v", w.CourseOf(name), err)
		}
	})
}

// BenchmarkPlanDrain plans the drain of a cluster that serves 1,000 reservations, and compares the result with the
// book without the drain. Like kubectl broker plan, it replays and simulates both books at the same time.
func BenchmarkPlanDrain(b *testing.B) {
	stored, err := bookOfServed(b, 1000).Freeze().Encode()
	runtest.Check(b, err)
	for b.Loop() {
		var copies [2]*WhatIf
		var group errgroup.Group
		for i := range copies {
			group.Go(func() error {
				book, err := replay.Read(journal.Recovery{Checkpoint: stored})
				if err == nil {
					copies[i], err = NewWhatIf(book, settings.Default(), machineBegins.Add(time.Hour), 10*time.Minute, nil)
				}
				if err == nil && i > 0 {
					err = copies[i].Drain("paris", drains.Drain{Notice: 10 * time.Minute})
				}
				if err != nil {
					return err
				}
				return copies[i].Run()
			})
		}
		runtest.Check(b, group.Wait())
		moved := copies[0].AffectedBy(copies[1].Simulation)
		if len(moved) != 1000 || moved[0].With.Steps[1].Provider == "" {
			b.Fatalf("%d: %+v", len(moved), moved[0].With)
		}
	}
}

// bookOfServed returns a book in which paris serves n reservations of rome, and four other clusters
// have room.
func bookOfServed(tb testing.TB, n int) *replay.Book {
	tb.Helper()
	book, err := replay.Read(journal.Recovery{})
	runtest.Check(tb, err)
	position := uint64(0)
	apply := func(change ledger.Change) {
		position++
		e := &ledger.Event{At: machineBegins, Change: change}
		checked, err := book.State.Check(e)
		runtest.Check(tb, err)
		book.ApplyEvent(checked, e, position)
	}
	apply(&ledger.Lineage{ID: "first", Key: make([]byte, 32)})
	for _, id := range []string{"rome", "paris", "berlin", "oslo", "milan", "lyon"} {
		amounts := amountsOf(v1.Amounts{"cpu": "2000", "memory": "4000Gi"})
		apply(&ledger.Offer{ClusterID: id, Agent: true, Capacity: amounts, Allocatable: amounts, Endpoint: endpointOf(id)})
	}
	for i := range n {
		name := fmt.Sprintf("res-%010d", i)
		apply(&ledger.Reserve{
			Name: name, Provider: "paris", Until: machineBegins.Add(lease),
			Request: ledger.Request{Requester: "rome", Key: name, Amounts: amountsOf(v1.Amounts{"cpu": "1", "memory": "2Gi"})},
		})
		ref := ledger.PlacementRef{Name: name, Placement: 1}
		apply(&ledger.Acknowledge{PlacementRef: ref})
		apply(&ledger.NodeReady{PlacementRef: ref, Ready: true})
	}
	return book
}

// Clusters without agents take part in plans. A drain without notice takes reservations away at
// once. Here the other cluster has no room, so the reservation waits.
func TestPlanOfClustersWithoutAgents(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.offerByHand("paris", 8, 16)
		f.offerByHand("oslo", 8, 16)
		first := objectRequest("rome")
		first.Key = "object-1"
		first.Amounts, first.Queue, first.Duration = quantity.Amounts{"cpu": 5000, "memory": 1 << 30}, true, time.Hour
		view, err := f.ReserveObject(context.Background(), first)
		runtest.Check(t, err)
		f.reserve("rome", "request-2", request("6", "1Gi"))
		drained := view.Placements[0].Provider
		time.Sleep(time.Second)
		w := f.planned(0)
		runtest.Check(t, errors.Join(w.Drain(drained, drains.Drain{}), w.Run()))
		if diff := cmp.Diff([]moment{{"waits", 0}}, momentsOf(w.CourseOf(view.Name), time.Now())); diff != "" {
			t.Errorf("drain of %s (-want +got):\n%s", drained, diff)
		}
	})
}
