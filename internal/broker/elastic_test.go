package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// readyWithin is how long the clusters of these tests take to create nodes.
const readyWithin = 8 * time.Minute

// creates lets a cluster offer to create nodes of 8 cores and 32 GiB with a label.
func creates(nodes int32) func(*v1.Advertisement) {
	return func(adv *v1.Advertisement) {
		adv.Elastic = &v1.Elastic{Amounts: v1.Amounts{"cpu": fmt.Sprint(8 * nodes), "memory": fmt.Sprintf("%dGi", 32*nodes)}, ReadyWithinSeconds: readyWithin.Seconds()}
		if nodes > 0 {
			adv.Elastic.Nodes = []v1.NodeShape{{Count: nodes, Free: v1.Amounts{"cpu": "8", "memory": "32Gi", "pods": "110"}, NodeLabels: map[string]string{"pool": "new"}}}
		}
	}
}

// elasticFleet runs a test with three clusters: rome requests, paris has 8 cores, and berlin has 4 and can
// create two nodes of 8.
func elasticFleet(t *testing.T, test func(f *fleet)) {
	inFleet(t, func(f *fleet) {
		f.advertiseElastic()
		test(f)
	})
}

func (f *fleet) advertiseElastic() {
	f.advertise("rome", "1", "1Gi")
	f.advertise("paris", "8", "32Gi")
	f.advertise("berlin", "4", "16Gi", creates(2))
}

// passElastic lets the clusters advertise for a time d.
func (f *fleet) passElastic(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(advertiseEvery) {
		f.advertiseElastic()
	}
	synctest.Wait()
}

// Nodes are created only for what fits nowhere else, and never promised twice.
func TestNodesAreCreatedForRequestsThatFitNowhere(t *testing.T) {
	elasticFleet(t, func(f *fleet) {
		if got := target(f.reserve("rome", "request-1", request("8", "8Gi"))); got != "paris" {
			t.Errorf("what fits on existing nodes goes to %s, want paris", got)
		}
		if got := target(f.reserve("rome", "request-2", request("4", "4Gi"))); got != "berlin" {
			t.Errorf("what fits on existing nodes goes to %s, want berlin", got)
		}
		if got := target(f.reserve("rome", "request-3", request("10", "4Gi"))); got != "berlin" {
			t.Errorf("what fits nowhere goes to %s, want berlin", got)
		}
		_, err := f.RequestReservation(context.Background(), "rome", "request-4", request("7", "4Gi"))
		if fault.ReasonOf(err) != fault.NoCandidate || !strings.Contains(err.Error(), "berlin") {
			t.Errorf("more than berlin can create: %v", err)
		}
		if got := target(f.reserve("rome", "request-5", request("6", "4Gi"))); got != "berlin" {
			t.Errorf("the rest goes to %s, want berlin", got)
		}
		// The nodes exist now, and are not offered any more.
		f.advertise("berlin", "20", "80Gi", creates(0))
		if got := f.available("berlin"); got != "0 68Gi" {
			t.Errorf("berlin has %s left, want 0 cores", got)
		}
	})
}

func TestPodsFitOnNodesToCreate(t *testing.T) {
	elasticFleet(t, func(f *fleet) {
		pods := request("16", "16Gi")
		pods.PodShapes = []v1.PodShape{{Count: 2, Resources: v1.Amounts{"cpu": "8", "memory": "8Gi"}}}
		if got := target(f.reserve("rome", "request-1", pods)); got != "berlin" {
			t.Errorf("two pods of a whole node each go to %s, want berlin", got)
		}
		pods.Resources, pods.PodShapes[0].Count = v1.Amounts{"cpu": "9", "memory": "8Gi"}, 1
		pods.PodShapes[0].Resources = v1.Amounts{"cpu": "9", "memory": "8Gi"}
		if _, err := f.RequestReservation(context.Background(), "rome", "request-2", pods); fault.ReasonOf(err) != fault.NoCandidate {
			t.Errorf("a pod that is larger than a node: %v", err)
		}
	})
}

func TestProviderHasTimeToCreateNodes(t *testing.T) {
	elasticFleet(t, func(f *fleet) {
		r := f.reserve("rome", "request-1", request("10", "4Gi"))
		f.mustReport("berlin", r, 1, provider, v1.StatusReportStateProvisioning)
		until := time.Now().Add(readyWithin).UTC().Format(time.RFC3339)
		for range 2 { // the deadline survives a takeover, and a repeated report does not move it
			f.wantPlacements(r, "while nodes are created", "Reserved: berlin=Provisioning")
			if got := f.get("rome", r.Name).Message; !strings.Contains(got, "berlin creates nodes, which must be Ready by "+until) {
				t.Errorf("rome is told %q", got)
			}
			if left := f.poll("rome", "").Instructions[0].ProvisionSeconds; left == nil || *left < readyWithin.Seconds()-1 {
				t.Errorf("rome has %v seconds, want %s", left, readyWithin)
			}
			f.kill()
			f.mustReport("berlin", r, 1, provider, v1.StatusReportStateProvisioning)
		}
		f.passElastic(7 * time.Minute)
		f.mustReport("berlin", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.wantPlacements(r, "with new nodes", "Reserved: berlin=Acknowledged")
		if err := f.report("berlin", r, 1, provider, v1.StatusReportStateProvisioning); fault.ReasonOf(err) != fault.Conflict {
			t.Errorf("more time after the acknowledgement: %v", err)
		}
		time.Sleep(3 * time.Second)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		// Seven minutes for new nodes are no slow delivery.
		f.wantSeries(map[string]string{"broker_time_to_ready_seconds": "1 in 3s"}, "broker_acknowledge", "broker_time_to_ready")
	})
}

// A provider that does not create its nodes in time loses the placement, and its reliability falls.
func TestNodesThatNeverComeAreCounted(t *testing.T) {
	elasticFleet(t, func(f *fleet) {
		r := f.reserve("rome", "request-1", request("10", "4Gi"))
		f.mustReport("berlin", r, 1, provider, v1.StatusReportStateProvisioning)
		f.passElastic(readyWithin + time.Minute)
		if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseFailed && got.Phase != v1.ReservationPhaseReleasing || got.Placements[0].Reason != "NeverProvisioned" {
			t.Errorf("after the deadline: %s %+v", got.Phase, got.Placements)
		}
		view, err := f.Cluster(context.Background(), "berlin")
		if err != nil || view.Record.Unanswered != 1 {
			t.Errorf("berlin's record: %+v, %v", view.Record, err)
		}
	})
}

// Without an offer to create nodes, a provider gets no more time than any other.
func TestOnlyElasticProvidersGetTime(t *testing.T) {
	elasticFleet(t, func(f *fleet) {
		r := f.reserve("rome", "request-1", request("8", "8Gi"))
		if err := f.report("paris", r, 1, provider, v1.StatusReportStateProvisioning); fault.ReasonOf(err) != fault.Conflict {
			t.Errorf("paris creates no nodes: %v", err)
		}
	})
}

// A waiting request is served by nodes that can be created later.
func TestWaitingRequestGetsNodesToCreate(t *testing.T) {
	elasticFleet(t, func(f *fleet) {
		f.advertise("berlin", "4", "16Gi", creates(0))
		waits := request("10", "4Gi")
		waits.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
		r := f.reserve("rome", "request-1", waits)
		if r.Phase != v1.ReservationPhaseQueued {
			t.Fatalf("phase %s, want Queued", r.Phase)
		}
		f.advertise("berlin", "4", "16Gi", creates(1))
		f.wantPlacements(r, "once berlin can create a node", "Reserved: berlin=Assigned")
	})
}

// A waiting request is served by existing nodes if any cluster has them, and before later requests even if it
// needs new nodes.
func TestWaitingRequestsGetNodesInOrder(t *testing.T) {
	queued := func(cpu string) *v1.ReservationRequest {
		req := request(cpu, "4Gi")
		req.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
		return req
	}
	t.Run("existing nodes first", func(t *testing.T) {
		elasticFleet(t, func(f *fleet) {
			config := settings.Default()
			config.Queue.Paused = true
			f.SetConfig(context.Background(), config)
			f.advertise("paris", "0", "32Gi")
			f.advertise("berlin", "4", "16Gi", creates(0))
			r := f.reserve("rome", "request-1", queued("8"))
			f.advertise("paris", "8", "32Gi")
			f.advertise("berlin", "4", "16Gi", creates(2))
			f.SetConfig(context.Background(), settings.Default())
			f.wantPlacements(r, "once the queue is resumed", "Reserved: paris=Assigned")
		})
	})
	t.Run("the first request first", func(t *testing.T) {
		elasticFleet(t, func(f *fleet) {
			f.advertise("paris", "0", "32Gi")
			f.advertise("berlin", "0", "16Gi", creates(0))
			first, second := f.reserve("rome", "request-1", queued("10")), f.reserve("rome", "request-2", queued("4"))
			f.advertise("berlin", "4", "16Gi", creates(1))
			f.wantPlacements(first, "once berlin has 4 cores and can create 8", "Reserved: berlin=Assigned")
			if got := f.get("rome", second.Name); got.Phase != v1.ReservationPhaseQueued {
				t.Errorf("the second request: %s", got.Phase)
			}
		})
	})
}

// Nodes are created only for a reservation that lasts longer than their creation may take.
func TestShortReservationsGetNoNewNodes(t *testing.T) {
	const late = "berlin: has room only on nodes that it creates within 8m0s, and the reservation ends in "
	lasting := func(cpu string, d time.Duration, policy v1.ReservationRequestQueuePolicy) *v1.ReservationRequest {
		req := request(cpu, "4Gi")
		req.DurationSeconds, req.QueuePolicy = int64(d.Seconds()), policy
		return req
	}
	t.Run("a new request", func(t *testing.T) {
		elasticFleet(t, func(f *fleet) {
			_, err := f.RequestReservation(context.Background(), "rome", "request-1", lasting("10", readyWithin, ""))
			if fault.ReasonOf(err) != fault.NoCandidate || !strings.Contains(err.Error(), late+"8m0s") {
				t.Errorf("one that ends with the creation: %v", err)
			}
			q, err := f.RequestQuote(context.Background(), "rome", "", lasting("10", readyWithin, ""))
			if err != nil || q.ClusterID != "" || q.Candidates[0].Reason != "ReadyTooLate" || !strings.Contains(q.Message, late) {
				t.Errorf("its quote: %+v, %v", q, err)
			}
			for key, req := range map[string]*v1.ReservationRequest{"longer": lasting("10", readyWithin+time.Second, ""), "existing": lasting("2", time.Minute, "")} {
				if got := target(f.reserve("rome", key, req)); got == "" {
					t.Errorf("%s: %s", key, got)
				}
			}
		})
	})
	t.Run("a waiting request lets longer ones pass", func(t *testing.T) {
		elasticFleet(t, func(f *fleet) {
			f.advertise("berlin", "4", "16Gi", creates(0))
			short, long := f.reserve("rome", "request-1", lasting("10", 5*time.Minute, "Queue")), f.reserve("rome", "request-2", lasting("10", time.Hour, "Queue"))
			f.advertise("berlin", "4", "16Gi", creates(2))
			f.wantPlacements(long, "once berlin can create nodes", "Reserved: berlin=Assigned")
			if got := f.get("rome", short.Name); got.Phase != v1.ReservationPhaseQueued {
				t.Errorf("the short one: %s", got.Phase)
			}
		})
	})
	t.Run("a waiting request keeps its right to existing nodes", func(t *testing.T) {
		elasticFleet(t, func(f *fleet) {
			f.advertise("paris", "0", "32Gi")
			f.advertise("berlin", "0", "16Gi", creates(0))
			f.reserve("rome", "request-1", lasting("4", 5*time.Minute, "Queue"))
			f.pauses(true)
			f.advertise("berlin", "4", "16Gi", creates(1))
			if r, err := f.RequestReservation(context.Background(), "rome", "request-2", request("10", "4Gi")); fault.ReasonOf(err) != fault.NoCandidate {
				t.Errorf("one that needs existing and new nodes: %+v, %v", r, err)
			}
		})
	})
	for left, want := range map[time.Duration]string{15 * time.Minute: "oslo", 7 * time.Minute: "berlin"} {
		t.Run(fmt.Sprintf("a reservation with %s left that has to move", left), func(t *testing.T) {
			elasticFleet(t, func(f *fleet) {
				r := f.reserve("rome", "request-1", lasting("10", 20*time.Minute, ""))
				f.mustReport("berlin", r, 1, provider, v1.StatusReportStateAcknowledged)
				f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
				f.passElastic(20*time.Minute - left)
				f.advertise("oslo", "0", "0", creates(2))
				f.mustReport("berlin", r, 1, provider, v1.StatusReportStateRefused)
				synctest.Wait()
				if got := target(f.get("rome", r.Name)); got != want {
					t.Errorf("it is on %s, want %s", got, want)
				}
			})
		})
	}
}

// A provider may create nodes for a reservation that its present provider calls back, while that one still serves it.
func TestNodesAreCreatedForARecalledReservation(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.advertise("berlin", "0", "0", creates(2))
		f.callsBack(r, in(time.Hour))
		f.wantPlacements(r, "at once", "Active: paris=Ready berlin=Assigned")
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateProvisioning)
		f.wantPlacements(r, "while nodes are created", "Active: paris=Ready berlin=Provisioning")
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
		synctest.Wait()
		f.wantPlacements(r, "once the new node is Ready", "Active: paris=Withdrawing(Recalled) berlin=Ready")
	})
}

// After a restore of an older journal, a provider that is creating nodes keeps its placement and its time,
// whether the journal still has the reservation or not.
func TestNodesAreStillCreatedAfterARestore(t *testing.T) {
	for name, kept := range map[string]bool{"the grant is kept": true, "the grant is lost": false} {
		t.Run(name, func(t *testing.T) {
			elasticFleet(t, func(f *fleet) {
				old := f.server.Clone()
				r := f.reserve("rome", "request-1", request("10", "4Gi"))
				if kept {
					old = f.server.Clone()
				}
				f.mustReport("berlin", r, 1, provider, v1.StatusReportStateProvisioning)
				f.reserve("rome", "request-2", request("1", "1Gi"))
				cursor := f.poll("rome", "").Cursor
				f.restore(old)
				f.advertiseElastic()
				f.Witness("rome", cursor)
				f.announce("berlin", []v1.ProvidedPlacement{{
					Reservation: r.Name, Placement: 1, ConsumerID: "rome", Resources: v1.Amounts{"cpu": "10", "memory": "4Gi"}, Provisioning: true,
				}})
				f.passElastic(5 * time.Minute)
				f.wantPlacements(r, "five minutes later", "Reserved: berlin=Provisioning")
			})
		})
	}
}

// Tainted nodes that can be created serve only requests that tolerate them, and change nothing for others.
func TestTaintsOfNodesToCreate(t *testing.T) {
	elasticFleet(t, func(f *fleet) {
		tainted := func(adv *v1.Advertisement) {
			creates(2)(adv)
			adv.Elastic.Nodes[0].Taints = []brokerv1alpha1.Taint{{Key: "dedicated", Effect: "NoSchedule"}}
			adv.NodeShapes = []v1.NodeShape{{Count: 1, Free: v1.Amounts{"cpu": "4", "memory": "16Gi", "pods": "110"}}}
		}
		f.advertise("berlin", "4", "16Gi", tainted)
		if _, err := f.RequestReservation(context.Background(), "rome", "request-1", request("10", "4Gi")); fault.ReasonOf(err) != fault.NoCandidate {
			t.Errorf("without a toleration: %v", err)
		}
		f.advertise("paris", "0", "0")
		if got := target(f.reserve("rome", "request-2", request("4", "4Gi"))); got != "berlin" {
			t.Errorf("on existing nodes: %s", got)
		}
		tolerates := request("8", "4Gi")
		tolerates.Constraints = &brokerv1alpha1.Constraints{Tolerations: []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}}
		if got := target(f.reserve("rome", "request-3", tolerates)); got != "berlin" {
			t.Errorf("with a toleration: %s", got)
		}
	})
}

// A quote shows a cluster that would create nodes as the one that serves.
func TestQuoteOfNodesToCreate(t *testing.T) {
	elasticFleet(t, func(f *fleet) {
		q, err := f.RequestQuote(context.Background(), "rome", "", request("10", "4Gi"))
		if err != nil || q.ClusterID != "berlin" || q.Candidates[0].ClusterID != "berlin" || q.Candidates[0].Reason != "" {
			t.Errorf("%+v, %v", q, err)
		}
	})
}

// elasticRun is a run of random steps, with an oracle that only adds and compares cores.
type elasticRun struct {
	*fleet
	rt *rapid.T
	// cores and nodes are what each cluster offers: cores on existing nodes, and nodes that it can create.
	cores, nodes map[string]int
	// sizes, names and at hold the cores, the reservation and the provider of each request that has not
	// ended, by key. at has only those that were granted.
	sizes map[string]int
	names map[string]string
	at    map[string]string
}

func (e *elasticRun) held(id string) (sum int) {
	for key, provider := range e.at {
		if provider == id {
			sum += e.sizes[key]
		}
	}
	return sum
}

// fits returns whether a request fits on existing nodes of any cluster, and whether it fits at all.
func (e *elasticRun) fits(size int) (exists, created bool) {
	for id := range e.cores {
		exists = exists || e.held(id)+size <= e.cores[id]
		created = created || e.held(id)+size <= e.cores[id]+8*e.nodes[id]
	}
	return exists, created
}

func (e *elasticRun) offer(id string) {
	e.cores[id], e.nodes[id] = rapid.IntRange(0, 10).Draw(e.rt, "cores"), rapid.IntRange(0, 2).Draw(e.rt, "nodes")
	e.advertise(id, fmt.Sprint(e.cores[id]), "1000Gi", creates(int32(e.nodes[id])))
}

// request asks for some cores. It returns an error that is not expected.
func (e *elasticRun) request(key string) {
	size, waits := rapid.IntRange(1, 24).Draw(e.rt, "size"), rapid.Bool().Draw(e.rt, "waits")
	req := request(fmt.Sprint(size), "1Gi")
	if waits {
		req.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
	}
	exists, created := e.fits(size)
	r, err := e.RequestReservation(context.Background(), "rome", key, req)
	if (err == nil) != (created || waits) {
		e.rt.Fatalf("%d cores: %v, want one with room: %t", size, err, created)
	}
	if err != nil {
		return
	}
	e.sizes[key], e.names[key] = size, r.Name
	if r.Phase == v1.ReservationPhaseQueued {
		return
	}
	if at := target(r); exists && e.held(at)+size > e.cores[at] {
		e.rt.Fatalf("%s must create nodes for %d cores, which exist elsewhere", at, size)
	}
}

// look notes what was granted, and checks that nothing was granted twice and that no request waits that fits.
func (e *elasticRun) look(before map[string]int) {
	synctest.Wait()
	for key, name := range e.names {
		r := e.get("rome", name)
		if _, known := e.at[key]; !known && len(r.Placements) > 0 {
			e.at[key] = target(r)
		}
	}
	for id := range e.cores {
		if held := e.held(id); held > before[id] && held > e.cores[id]+8*e.nodes[id] {
			e.rt.Fatalf("%s has promised %d of %d cores and %d nodes", id, held, e.cores[id], e.nodes[id])
		}
	}
	for key, size := range e.sizes {
		if _, granted := e.at[key]; granted {
			continue
		}
		if _, created := e.fits(size); created {
			e.rt.Fatalf("%s waits, and its %d cores fit: held %v of %v and %v nodes", key, size, e.at, e.cores, e.nodes)
		}
	}
}

// Whatever is offered, requested and released, no cluster promises more than its nodes and those that it
// can create, nodes are created only for what fits on no existing ones, and a request is refused or waits
// only as long as no cluster has room even then.
func TestElasticOffersAreNeverOversold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		inFleet(t, func(f *fleet) {
			e := &elasticRun{fleet: f, rt: rt, cores: map[string]int{}, nodes: map[string]int{}, sizes: map[string]int{}, names: map[string]string{}, at: map[string]string{}}
			f.advertise("rome", "0", "1Gi")
			ids := []string{"berlin", "oslo", "paris"}
			for _, id := range ids {
				e.offer(id)
			}
			for i := range rapid.IntRange(1, 25).Draw(rt, "steps") {
				before := map[string]int{}
				for _, id := range ids {
					before[id] = e.held(id)
				}
				switch keys := slices.Sorted(maps.Keys(e.sizes)); rapid.SampledFrom([]string{"request", "request", "offer", "release", "kill"}).Draw(rt, "step") {
				case "request":
					e.request(fmt.Sprintf("request-%d", i))
				case "offer":
					e.offer(rapid.SampledFrom(ids).Draw(rt, "cluster"))
				case "kill":
					f.kill()
					for _, id := range ids {
						f.advertise(id, fmt.Sprint(e.cores[id]), "1000Gi", creates(int32(e.nodes[id])))
					}
				case "release":
					if len(keys) == 0 {
						continue
					}
					key := rapid.SampledFrom(keys).Draw(rt, "released")
					r := f.get("rome", e.names[key])
					f.release("rome", r.Name)
					for n := range r.Placements {
						f.mustReport(r.Placements[n].ClusterID, r, n+1, provider, v1.StatusReportStateGone)
					}
					delete(e.sizes, key)
					delete(e.names, key)
					delete(e.at, key)
				}
				e.look(before)
			}
		})
	})
}
