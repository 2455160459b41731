package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
)

// scrape returns the values of all series, by name and labels. The value of a histogram has its
// count and its sum, for example "1 in 5s".
func scrape(t testing.TB, b *Broker) map[string]string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(b))
	families, err := registry.Gather()
	runtest.Check(t, err)
	out := map[string]string{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			out[seriesName(family.GetName(), m)] = valueOf(m)
		}
	}
	return out
}

func seriesName(name string, m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	if labels == nil {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

func valueOf(m *dto.Metric) string {
	if h := m.GetHistogram(); h != nil {
		return fmt.Sprintf("%d in %vs", h.GetSampleCount(), h.GetSampleSum())
	}
	return fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
}

// wantSeries compares want with the series whose names begin with one of the prefixes. Series with
// the value 0 and histograms without observations are left out.
func (f *fleet) wantSeries(want map[string]string, prefixes ...string) {
	f.t.Helper()
	got := scrape(f.t, f.Broker)
	for name, value := range got {
		chosen := slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if !chosen || value == "0" || strings.HasPrefix(value, "0 in") {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestMetricsFollowAReservation(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "16", "64Gi", func(a *v1.Advertisement) {
			a.ClusterName, a.Topology.Region = "Paris", "eu-west"
			a.Cost = brokerv1alpha1.Cost{CPUCost: "0.25", MemoryCost: "0.05", Currency: "EUR"}
			a.Allocated = v1.Amounts{"cpu": "2"}
		})
		r := f.reserve("rome", "request-1", request("4", "8Gi"))
		time.Sleep(2 * time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(3 * time.Second)
		for range 2 { // repeated reports must not be counted
			f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		}
		f.wantSeries(map[string]string{
			"broker_cluster_info{member=paris,name=Paris,region=eu-west,zone=}":                 "1",
			"broker_cluster_phase{member=paris,phase=Active}":                                   "1",
			"broker_cluster_placements{member=paris,phase=Active}":                              "1",
			"broker_cluster_price_per_hour{currency=EUR,member=paris,resource=cpu}":             "0.25",
			"broker_cluster_price_per_hour{currency=EUR,member=paris,resource=memory}":          "0.05",
			"broker_cluster_reliability_ratio{member=paris}":                                    "0.6666666666666666",
			"broker_cluster_resource{member=paris,resource=cpu,state=allocatable,unit=core}":    "16",
			"broker_cluster_resource{member=paris,resource=cpu,state=own,unit=core}":            "2",
			"broker_cluster_resource{member=paris,resource=cpu,state=reserved,unit=core}":       "4",
			"broker_cluster_resource{member=paris,resource=cpu,state=available,unit=core}":      "10",
			"broker_cluster_resource{member=paris,resource=memory,state=allocatable,unit=byte}": fmt.Sprint(float64(64 << 30)),
			"broker_cluster_resource{member=paris,resource=memory,state=reserved,unit=byte}":    fmt.Sprint(float64(8 << 30)),
			"broker_cluster_resource{member=paris,resource=memory,state=available,unit=byte}":   fmt.Sprint(float64(56 << 30)),
			"broker_placements_total{member=paris,outcome=granted}":                             "1",
			"broker_placements_total{member=paris,outcome=ready}":                               "1",
			"broker_reservations_total{phase=Reserved,requester=rome}":                          "1",
			"broker_reservations_total{phase=Active,requester=rome}":                            "1",
			"broker_reservations{phase=Active}":                                                 "1",
			"broker_decisions_total{result=granted}":                                            "1",
			"broker_candidates_rejected_total{reason=Self}":                                     "1",
			"broker_acknowledge_duration_seconds":                                               "1 in 2s",
			"broker_time_to_ready_seconds":                                                      "1 in 5s",
			"broker_advertisements_total{result=material}":                                      "2",
		}, "broker_cluster_info{member=paris", "broker_cluster_phase{member=paris", "broker_cluster_placements", "broker_cluster_price", "broker_cluster_rel",
			"broker_cluster_resource{member=paris", "broker_placements_total", "broker_reservations", "broker_decisions_total", "broker_candidates",
			"broker_acknowledge", "broker_time_to_ready", "broker_advertisements")

		f.release("rome", r.Name)
		time.Sleep(7 * time.Second)
		f.wantSeries(map[string]string{
			"broker_oldest_in_phase_seconds{phase=Releasing}":           "7",
			"broker_reservations{phase=Releasing}":                      "1",
			"broker_reservations_ended_total{reason=Released}":          "1",
			"broker_reservations_total{phase=Active,requester=rome}":    "1",
			"broker_reservations_total{phase=Reserved,requester=rome}":  "1",
			"broker_reservations_total{phase=Releasing,requester=rome}": "1",
		}, "broker_oldest", "broker_reservations")
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
		f.wantSeries(map[string]string{
			"broker_release_duration_seconds":     "1 in 7s",
			"broker_reservations{phase=Released}": "1",
		}, "broker_release_duration", "broker_reservations{")
	})
}

func TestMetricsExplainRequestsThatWait(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "8", "64Gi")
		f.runs(f.reserve("rome", "request-1", request("8", "1Gi")))
		f.reserve("rome", "request-2", waiting("4", "1Gi"))
		if _, err := f.RequestReservation(context.Background(), "rome", "request-3", request("4", "1Gi")); err == nil {
			t.Fatal("want a refusal")
		}
		time.Sleep(20 * time.Second)
		f.wantSeries(map[string]string{
			"broker_decisions_total{result=granted}":                "1",
			"broker_decisions_total{result=queued}":                 "1",
			"broker_decisions_total{result=refused}":                "1",
			"broker_requests_waiting":                               "1",
			"broker_unplaced_requests{reason=InsufficientResource}": "1",
			"broker_oldest_in_phase_seconds{phase=Queued}":          "20",
		}, "broker_decisions", "broker_requests_waiting", "broker_unplaced", "broker_oldest")
	})
}

func TestMetricsOfQueueAndPreemption(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("rome", "1", "1Gi")
		f.advertise("milan", "1", "1Gi")
		f.offerByHand("paris", 8, 64)
		victim := f.reserve("milan", "request-1", asked("8", priority(1)))
		f.reserve("rome", "request-2", waiting("8", "1Gi", priority(10)))
		for range 4 { // both agents keep advertising until the grace period is over
			time.Sleep(grace / 3)
			f.advertise("rome", "1", "1Gi")
			f.advertise("milan", "1", "1Gi")
		}
		f.report("milan", victim, 1, consumer, v1.StatusReportStateGone) //nolint:errcheck // it may be gone already
		synctest.Wait()
		f.wantSeries(map[string]string{
			"broker_preemptions_total{step=warned}":             "1",
			"broker_preemptions_total{step=withdrawn}":          "1",
			"broker_queue_wait_seconds{result=granted}":         "1 in 60s",
			"broker_reservations_ended_total{reason=Preempted}": "1",
		}, "broker_preemptions", "broker_queue_wait", "broker_reservations_ended")
	})
}

func TestMetricsCountMovesByReason(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi", busy)
		f.advertise("oslo", "8", "16Gi", busy)
		r := f.reserve("rome", "request-1", request("1", "1Gi"))
		err := f.ReportStatus(context.Background(), "paris", r.Name, &v1.StatusReport{
			Placement: 1, Role: provider, State: v1.StatusReportStateRefused, Reason: "madeUpByParis",
		})
		runtest.Check(t, err)
		time.Sleep(limits.Acknowledge)
		synctest.Wait()
		f.wantSeries(map[string]string{
			"broker_moves_total{reason=Refused}":        "1",
			"broker_moves_total{reason=Unacknowledged}": "1",
		}, "broker_moves")
	})
}

func TestClustersThatGetNothingNewHaveNothingAvailable(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi")
		f.advertise("oslo", "4", "8Gi")
		time.Sleep(settings.Default().Timeouts.Silence)
		f.advertise("oslo", "4", "8Gi")
		f.wantSeries(map[string]string{
			"broker_cluster_resource{member=paris,resource=cpu,state=allocatable,unit=core}": "4",
			"broker_cluster_resource{member=oslo,resource=cpu,state=allocatable,unit=core}":  "4",
			"broker_cluster_resource{member=oslo,resource=cpu,state=available,unit=core}":    "4",
		}, "broker_cluster_resource{member=paris,resource=cpu", "broker_cluster_resource{member=oslo,resource=cpu")

		time.Sleep(settings.Default().StaleThreshold)
		runtest.Check(t, f.ForgetCluster(context.Background(), "paris"))
		for name := range scrape(t, f.Broker) {
			if strings.HasPrefix(name, "broker_cluster") && strings.Contains(name, "member=paris") {
				t.Errorf("a cluster that was forgotten has %s", name)
			}
		}
	})
}

func TestMembersBeyondTheLimitShareALabel(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.meter.Members = 2
		for _, id := range []string{"rome", "paris", "berlin", "oslo"} {
			f.advertise(id, "4", "8Gi")
		}
		f.reserve("rome", "request-1", request("1", "1Gi"))
		f.reserve("oslo", "request-2", request("1", "1Gi"))
		want := map[string]string{
			"broker_cluster_phase{member=rome,phase=Active}":                                  "1",
			"broker_cluster_phase{member=paris,phase=Active}":                                 "1",
			"broker_cluster_phase{member=_other,phase=Active}":                                "2",
			"broker_cluster_resource{member=rome,resource=cpu,state=allocatable,unit=core}":   "4",
			"broker_cluster_resource{member=paris,resource=cpu,state=allocatable,unit=core}":  "4",
			"broker_cluster_resource{member=_other,resource=cpu,state=allocatable,unit=core}": "8",
			"broker_reservations_total{phase=Reserved,requester=rome}":                        "1",
			"broker_reservations_total{phase=Reserved,requester=_other}":                      "1",
		}
		prefixes := []string{"broker_cluster_phase", "broker_reservations_total"}
		for _, id := range []string{"rome", "paris", "berlin", "oslo", "_other"} {
			prefixes = append(prefixes, "broker_cluster_resource{member="+id+",resource=cpu,state=allocatable")
		}
		f.wantSeries(want, prefixes...)
	})
}

// Otherwise any member could blind the broker's administrators: one double series fails the whole scrape.
func TestLongNamesWithTheSameBeginningAreDifferentSeries(t *testing.T) {
	inFleet(t, func(f *fleet) {
		domain := strings.Repeat("a", 253)
		f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) {
			a.Cost = brokerv1alpha1.Cost{Currency: "EUR", ResourceCosts: map[corev1.ResourceName]brokerv1alpha1.Price{}}
			for _, name := range []string{domain + "/x", domain + "/y"} {
				a.Capacity[name], a.Cost.ResourceCosts[corev1.ResourceName(name)] = "2", "1"
			}
		})
		found := map[string]int{}
		for name := range scrape(t, f.Broker) {
			if metric, _, _ := strings.Cut(name, "{"); strings.Contains(name, "resource="+domain[:200]) {
				found[metric]++
			}
		}
		if diff := cmp.Diff(map[string]int{"broker_cluster_resource": 2 * 5, "broker_cluster_price_per_hour": 2}, found); diff != "" {
			t.Errorf("series of two resources (-want +got):\n%s", diff)
		}
	})
}

func TestOnlyServingReplicaExportsTheBook(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi")
		f.reserve("rome", "request-1", request("1", "1Gi"))
		end := f.follow()
		defer end()
		synctest.Wait()
		want := map[string]string{"broker_build_info{version=test}": "1", "broker_serving": "0"}
		if diff := cmp.Diff(want, scrape(t, f.follower)); diff != "" {
			t.Errorf("a follower exports (-want +got):\n%s", diff)
		}
		if got := scrape(t, f.Broker); got["broker_serving"] != "1" || len(got) < 50 {
			t.Errorf("the leader exports %v", got)
		}
		f.follower = nil
	})
}

func TestHistogramsAreNativeAndClassicWithExemplars(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		r := f.runs(f.reserve("rome", "request-1", request("1", "1Gi")))
		registry := prometheus.NewRegistry()
		registry.MustRegister(NewCollector(f.Broker))
		families, err := registry.Gather()
		runtest.Check(t, err)
		exemplars := map[string]bool{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				h := m.GetHistogram()
				if h == nil {
					continue
				}
				if len(h.GetBucket()) == 0 || h.Schema == nil {
					t.Errorf("%s lacks one of its two forms", family.GetName())
				}
				for _, bucket := range h.GetBucket() {
					for _, l := range bucket.GetExemplar().GetLabel() {
						exemplars[family.GetName()+" "+l.GetName()+" "+l.GetValue()] = true
					}
				}
			}
		}
		id := tracing.TraceOf(f.session.journal.ID(), r.Name).String()
		for _, want := range []string{"broker_time_to_ready_seconds trace_id " + id, "broker_time_to_ready_seconds reservation " + r.Name} {
			if !exemplars[want] {
				t.Errorf("no exemplar %q in %v", want, exemplars)
			}
		}
	})
}
