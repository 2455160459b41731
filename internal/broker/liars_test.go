package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/excess"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// liarFleet is a broker with ten clusters that request from each other. Some of them are liars:
// they advertise ten times as much as the others, at the lowest price, and fail requesters.
type liarFleet struct {
	*fleet
	random *rand.Rand
	ids    []string
	liars  map[string]bool
	lie    string
	// granted counts placements by provider since the map was last cleared.
	granted map[string]int
	// advertised is when all clusters last advertised.
	advertised time.Time
}

const (
	neverAcknowledges = "never acknowledges"
	neverReady        = "acknowledges, and its node never becomes Ready"
	neverConnects     = "acknowledges, and its network is never set up"
	refuses           = "refuses"
	refusesPods       = "refuses pods that do not fit"
	withdraws         = "withdraws what it acknowledged"
	sometimesServes   = "serves one of two, and does not answer the other"
)

func (f *liarFleet) advertiseAll() {
	for _, id := range f.ids {
		if f.liars[id] {
			f.advertise(id, "640", "2560Gi", atPrice("0.0001"))
		} else {
			f.advertise(id, "64", "256Gi", atPrice("1"))
		}
	}
}

func atPrice(price string) func(*v1.Advertisement) {
	return func(a *v1.Advertisement) {
		a.Cost = v1.Cost{CPUCost: price, MemoryCost: price, Currency: "EUR"}
	}
}

// settle plays both sides of each placement until one is served or the reservation has ended. Then
// both sides report that nothing is left.
func (f *liarFleet) settle(requester string, r *v1.Reservation) {
	for number := 1; ; number++ {
		now := f.get(requester, r.Name)
		if now.EndReason != "" || len(now.Placements) < number {
			break
		}
		provider := now.Placements[number-1].ClusterID
		f.granted[provider]++
		if !f.liars[provider] || f.lie == sometimesServes && f.random.IntN(2) == 0 {
			f.deliver(requester, provider, r, number)
			break
		}
		f.betray(requester, provider, r, number)
	}
	for number, p := range f.get(requester, r.Name).Placements {
		f.mustReport(requester, r, number+1, consumer, v1.StatusReportStateGone)
		f.mustReport(p.ClusterID, r, number+1, provider, v1.StatusReportStateGone)
	}
}

func (f *liarFleet) deliver(requester, from string, r *v1.Reservation, number int) {
	f.mustReport(from, r, number, provider, v1.StatusReportStateAcknowledged)
	f.mustReport(requester, r, number, consumer, v1.StatusReportStateReady)
	if _, err := f.ReleaseReservation(context.Background(), requester, r.Name, ""); err != nil {
		f.t.Fatal(err)
	}
}

func (f *liarFleet) betray(requester, from string, r *v1.Reservation, number int) {
	switch f.lie {
	case neverReady:
		f.mustReport(from, r, number, provider, v1.StatusReportStateAcknowledged)
		for range 3 {
			time.Sleep(limits.Ready / 3)
			f.keepFresh()
		}
		time.Sleep(time.Second)
	case neverConnects:
		f.mustReport(from, r, number, provider, v1.StatusReportStateAcknowledged)
		f.mustReport(requester, r, number, consumer, v1.StatusReportStateConnecting)
		for now := f.get(requester, r.Name); now.EndReason == "" && len(now.Placements) == number; now = f.get(requester, r.Name) {
			time.Sleep(limits.Acknowledge / 2) // short enough to acknowledge in time for the next provider
			f.keepFresh()
		}
	case refuses:
		f.mustReport(from, r, number, provider, v1.StatusReportStateRefused)
	case refusesPods:
		refusal := &v1.StatusReport{Placement: int32(number), Role: provider, State: v1.StatusReportStateRefused, Reason: ledger.PodsDoNotFit}
		if err := f.ReportStatus(context.Background(), from, r.Name, refusal); err != nil {
			f.t.Fatal(err)
		}
	case withdraws:
		f.mustReport(from, r, number, provider, v1.StatusReportStateAcknowledged)
		f.mustReport(from, r, number, provider, v1.StatusReportStateRefused)
	default:
		time.Sleep(limits.Acknowledge + time.Second)
		f.keepFresh()
	}
}

// keepFresh lets all clusters advertise if an interval has passed since they last did.
func (f *liarFleet) keepFresh() {
	if time.Since(f.advertised) >= advertiseEvery {
		f.advertised = time.Now()
		f.advertiseAll()
	}
}

// run makes a number of requests, one a second, from each honest cluster in turn.
func (f *liarFleet) run(requests int) {
	honest := slices.DeleteFunc(slices.Clone(f.ids), func(id string) bool { return f.liars[id] })
	for n := range requests {
		time.Sleep(time.Second)
		f.keepFresh()
		id := honest[n%len(honest)]
		f.settle(id, f.reserve(id, fmt.Sprintf("request-%06d", f.sequence*1000+int64(n)), request("1", "1Gi")))
	}
}

func weightings() map[string]decision.Weights {
	out := map[string]decision.Weights{}
	for _, name := range []string{decision.PresetAvailability, decision.PresetBalanced, decision.PresetMultiCriteria} {
		out[name], _ = decision.Preset(name) // Preset knows these names
	}
	random := rand.New(rand.NewPCG(6, 0))
	for range 2 {
		w := decision.Weights{}
		for _, criterion := range decision.Criteria() {
			w[criterion] = random.IntN(101)
		}
		out[fmt.Sprint(w)] = w
	}
	out["cost alone"] = decision.Weights{decision.Cost: 100}
	return out
}

// Whatever the weights, after a few failures a liar gets less than 1 % of the placements. With -short, the
// weights are the default ones.
func TestLiarsGetNoNewRequests(t *testing.T) {
	const first, requests = 100, 400
	for _, lie := range []string{neverAcknowledges, neverReady, neverConnects, refuses, refusesPods, withdraws, sometimesServes} {
		for name, weights := range weightings() {
			for _, liars := range []int{1, 3} {
				if (liars == 3 || testing.Short()) && name != decision.PresetBalanced {
					continue
				}
				t.Run(fmt.Sprintf("%d of 10 %s, by %s", liars, lie, name), func(t *testing.T) {
					t.Parallel()
					inFleet(t, func(base *fleet) {
						f := &liarFleet{fleet: base, random: rand.New(rand.NewPCG(7, 0)), liars: map[string]bool{}, lie: lie, granted: map[string]int{}}
						for i := range 10 {
							f.ids = append(f.ids, fmt.Sprintf("cluster-%d", i))
							f.liars[f.ids[i]] = i < liars
						}
						config := settings.Default()
						config.Weights = weights
						f.SetConfig(context.Background(), config)
						f.run(first)
						atFirst := f.count()
						clear(f.granted)
						f.run(requests)
						got := f.count()
						t.Logf("of the first %d requests %d went to liars, of the next %d placements %d", first, atFirst, f.total(), got)
						if 100*got >= f.total()*liars {
							t.Errorf("%d of %d placements went to %d liars, want less than 1 %% each", got, f.total(), liars)
						}
					})
				})
			}
		}
	}
}

func (f *liarFleet) count() (n int) {
	for id, granted := range f.granted {
		if f.liars[id] {
			n += granted
		}
	}
	return n
}

func (f *liarFleet) total() (n int) {
	for _, granted := range f.granted {
		n += granted
	}
	return n
}

func (f *fleet) fails(requester, key string, from string) *v1.Reservation {
	f.t.Helper()
	q := request("1", "1Gi")
	q.TargetClusterID = from
	r := f.reserve(requester, key, q)
	f.mustReport(from, r, 1, provider, v1.StatusReportStateAcknowledged)
	f.mustReport(from, r, 1, provider, v1.StatusReportStateRefused)
	return r
}

func (f *fleet) refusal(requester, key, from string) string {
	f.t.Helper()
	q := request("1", "1Gi")
	q.TargetClusterID = from
	_, err := f.RequestReservation(context.Background(), requester, key, q)
	if fault.ReasonOf(err) != fault.NoCandidate {
		f.t.Fatalf("%s asks %s: %v, want NoCandidate", requester, from, err)
	}
	return err.Error()
}

func TestRequesterCannotPauseProviderForOthers(t *testing.T) {
	inFleet(t, func(f *fleet) {
		for _, id := range []string{"rome", "paris", "berlin"} {
			f.advertise(id, "64", "256Gi")
		}
		for n := range 3 {
			f.fails("rome", fmt.Sprintf("request-%d", n), "paris")
		}
		if got := f.refusal("rome", "request-9", "paris"); !strings.Contains(got, "3 failures in a row for rome, tries again at ") {
			t.Errorf("rome is told %q", got)
		}
		f.reserve("berlin", "request-1", func() *v1.ReservationRequest {
			q := request("1", "1Gi")
			q.TargetClusterID = "paris"
			return q
		}())
		for range 2 {
			view, err := f.Cluster(context.Background(), "paris")
			if err != nil || view.Standing == nil || view.Standing.Paused.Why != "" || view.Standing.PausedFor["rome"].Why == "" {
				t.Errorf("paris is paused for %+v, %v; want rome alone", view.Standing, err)
			}
			f.kill() // the record of failures survives a takeover
			f.advertise("paris", "64", "256Gi")
		}
	})
}

func TestPauseEndsWithTrial(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "64", "256Gi")
		f.advertise("paris", "64", "256Gi")
		for n := range 3 {
			f.fails("rome", fmt.Sprintf("request-%d", n), "paris")
		}
		q := request("1", "1Gi")
		q.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
		first, second := f.reserve("rome", "request-7", q), f.reserve("rome", "request-8", q)
		for _, r := range []*v1.Reservation{first, second} {
			if r.Phase != v1.ReservationPhaseQueued {
				t.Fatalf("phase %s, want Queued", r.Phase)
			}
		}
		time.Sleep(time.Minute + time.Second)
		if a, b := f.get("rome", first.Name).Phase, f.get("rome", second.Name).Phase; a != v1.ReservationPhaseReserved || b != v1.ReservationPhaseQueued {
			t.Fatalf("after a minute %s and %s, want one on trial", a, b)
		}
		f.mustReport("paris", first, 1, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", first, 1, consumer, v1.StatusReportStateReady)
		if got := f.get("rome", second.Name).Phase; got != v1.ReservationPhaseReserved {
			t.Errorf("after the trial %s, want Reserved", got)
		}
	})
}

func TestExceededGrantPausesConsumerAtTheReportingProvider(t *testing.T) {
	inFleet(t, func(f *fleet) {
		for _, id := range []string{"rome", "paris", "berlin", "oslo"} {
			f.advertise(id, "64", "256Gi")
		}
		exceed := func(from string, reports int32) {
			q := request("1", "1Gi")
			q.TargetClusterID = from
			r := f.reserve("rome", "request-"+from, q)
			f.mustReport(from, r, 1, provider, v1.StatusReportStateAcknowledged)
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
			for pods := range reports {
				err := f.ReportStatus(context.Background(), from, r.Name, &v1.StatusReport{
					Placement: 1, Role: provider, State: v1.StatusReportStateAcknowledged,
					Excess: &v1.Excess{Pods: pods + 1, Resources: v1.Amounts{"cpu": "2"}},
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(excess.Every)
				for _, id := range []string{"rome", "paris", "berlin", "oslo"} {
					f.advertise(id, "64", "256Gi")
				}
			}
		}
		view := func() *ClusterView {
			v, err := f.Cluster(context.Background(), "rome")
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		exceed("paris", 3)
		if x := view().Excess; x != nil && x.All != "" {
			t.Fatalf("the word of paris alone keeps rome away from all: %+v", x)
		}
		f.reserve("rome", "request-2", request("1", "1Gi")) // other providers still serve rome
		exceed("berlin", 2)
		if x := view().Excess; x == nil || x.All == "" {
			t.Errorf("two providers report excess, and rome is kept away by %+v, want by all", x)
		}
		if got := f.refusal("rome", "request-oslo-2", "oslo"); !strings.Contains(got, "rome exceeded grants of several clusters") {
			t.Errorf("rome is told %q", got)
		}
		if r := f.get("rome", "request-berlin"); r.Phase != v1.ReservationPhaseActive || !strings.Contains(r.Message, "berlin evicted 2 pods that exceeded the grant by cpu=2") {
			t.Errorf("what was granted is %s, %q; want it Active, and the pods told", r.Phase, r.Message)
		} else if x := r.Instruction.Excess; x == nil || x.Pods != 2 || x.Resources["cpu"] != "2" {
			t.Errorf("the instruction of rome tells %+v", x)
		}
	})
}

func TestPausesAreLiftedOncePerMark(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "64", "256Gi")
		f.advertise("paris", "64", "256Gi")
		fail := func(key string) {
			for n := range 3 {
				q := request("1", "1Gi")
				q.TargetClusterID = "paris"
				r := f.reserve("rome", fmt.Sprintf("%s-%d", key, n), q)
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
			}
		}
		lift := func(mark string, want bool) {
			t.Helper()
			if lifted, err := f.LiftPauses(context.Background(), "paris", mark); err != nil || lifted != want {
				t.Fatalf("with mark %s: lifted %t, %v; want %t", mark, lifted, err, want)
			}
		}
		lift("too-early", false)
		fail("request-first")
		if got := f.refusal("rome", "request-paused", "paris"); !strings.Contains(got, "3 failures in a row for rome") {
			t.Fatalf("after three failures rome is told %q", got)
		}
		view, err := f.Cluster(context.Background(), "paris")
		if err != nil || view.Failures["rome"] != 3 {
			t.Errorf("failures %v, %v; want 3 of rome", view.Failures, err)
		}
		lift("too-early", false)
		lift("after-repair", true)
		fail("request-second")
		lift("after-repair", false)
		if got := f.refusal("rome", "request-again", "paris"); !strings.Contains(got, "failures in a row for rome") {
			t.Errorf("a mark that was used lifts later pauses: rome is told %q", got)
		}
	})
}
