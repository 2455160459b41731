package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func inPlan(after time.Duration, phase, provider, perHour, message string) PlannedStep {
	s := PlannedStep{At: metav1.NewTime(noon.Add(after)), Phase: phase, Provider: provider, Message: message}
	if perHour != "" {
		s.PerHour, s.Currency = perHour, "EUR"
	}
	if phase == PlannedEnded {
		s.Reason, s.Provider = provider, ""
	}
	return s
}

func plannedReservation(name string, without, with []PlannedStep) PlannedReservation {
	now := inPlan(0, PlannedReserved, "oslo", "0.84", "")
	return PlannedReservation{
		Ref: Ref{Kind: "Reservation", Namespace: "team", Name: name}, Reservation: "res-" + name, Requester: "rome",
		Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
		Without:   append([]PlannedStep{now}, without...), With: append([]PlannedStep{now}, with...),
	}
}

func plannedDrain() *Plan {
	lendable := map[corev1.ResourceName]int64{"cpu": 64_000, "memory": 256 << 30}
	partly := inPlan(0, PlannedReserved, "paris", "0.91", "")
	partly.NotPriced = []string{"nvidia.com/gpu"}
	p := &Plan{
		Change: "if oslo were drained with a notice of 10m0s", At: metav1.NewTime(noon), Until: metav1.NewTime(noon.Add(10 * time.Minute)), Record: 512,
		Affected: []PlannedReservation{
			plannedReservation("moves", nil, []PlannedStep{partly}),
			plannedReservation("waits", nil, []PlannedStep{inPlan(10*time.Minute, PlannedQueued, "", "", "waits for capacity, place 1 of 1: \x1b[31mno cluster can hold 8 of cpu")}),
			plannedReservation("fails", nil, []PlannedStep{inPlan(10*time.Minute, PlannedEnded, "Failed", "", "the broker's administrator has drained oslo, and no cluster can hold 8 of cpu")}),
			plannedReservation("expires", []PlannedStep{inPlan(time.Minute, PlannedEnded, "Expired", "", "")},
				[]PlannedStep{inPlan(0, PlannedReserved, "paris", "", ""), inPlan(time.Minute, PlannedEnded, "Expired", "", "")}),
		},
		Without:     PlanTotals{Served: 41, NotPriced: 2, Waiting: 6, PerHour: []PlannedPrice{{"31.2", "EUR"}}, Lendable: lendable, Free: lendable},
		With:        PlanTotals{Served: 40, Waiting: 7, Lendable: map[corev1.ResourceName]int64{"cpu": 32_000}, Free: map[corev1.ResourceName]int64{"cpu": 1500}},
		Assumptions: []string{"nobody asks for anything else"},
	}
	p.Complete()
	return p
}

func plannedDemand() *Plan {
	p := &Plan{Change: "if rome asked 5 times for 2 cores", At: metav1.NewTime(noon), Until: metav1.NewTime(noon.Add(24 * time.Hour)), Record: 512}
	served := []PlannedStep{inPlan(0, PlannedReserved, "paris", "0.91", "")}
	later := []PlannedStep{inPlan(0, PlannedQueued, "", "", "waits for capacity, place 1 of 1: no cluster can hold 2 of cpu"), inPlan(3*time.Hour, PlannedReserved, "oslo", "1", "")}
	p.Requests = []PlannedRequest{{Number: 1, Steps: served}, {Number: 2, Steps: served}, {Number: 3, Steps: later}, {Number: 4, Steps: later[:1]}, {Number: 5, Refused: "the queue is full"}}
	p.Complete()
	return p
}

func TestPlanIsShownWithItsWorstConsequencesFirst(t *testing.T) {
	quiet := plannedDrain()
	quiet.Affected = nil
	for file, plan := range map[string]*Plan{"plan-drain.txt": plannedDrain(), "plan-demand.txt": plannedDemand(), "plan-nothing.txt": quiet} {
		var out strings.Builder
		runtest.Check(t, WritePlan(&out, plan, plain))
		compareGolden(t, file, out.String())
	}
}

func TestPlanHarmsIfCapacityIsLostOrMissing(t *testing.T) {
	moves := plannedReservation("moves", nil, []PlannedStep{inPlan(0, PlannedReserved, "paris", "", "")})
	waits := plannedReservation("waits", nil, []PlannedStep{inPlan(0, PlannedQueued, "", "", "")})
	fails := plannedReservation("fails", nil, []PlannedStep{inPlan(0, PlannedEnded, "Failed", "", "")})
	helped := plannedReservation("helped", []PlannedStep{inPlan(0, PlannedEnded, "Failed", "", "")}, []PlannedStep{inPlan(time.Hour, PlannedEnded, "Expired", "", "")})
	waitsAnyway := plannedReservation("waits-anyway", []PlannedStep{inPlan(0, PlannedQueued, "", "", "")}, []PlannedStep{inPlan(time.Minute, PlannedQueued, "", "", "")})
	failsAnyway := plannedReservation("fails-anyway", []PlannedStep{inPlan(0, PlannedEnded, "Failed", "", "")}, []PlannedStep{inPlan(time.Minute, PlannedEnded, "Failed", "", "")})
	served := PlannedRequest{Number: 1, Steps: []PlannedStep{inPlan(0, PlannedReserved, "paris", "", "")}}
	tests := map[string]struct {
		plan     Plan
		harms    bool
		outcomes []PlannedOutcome
	}{
		"a reservation that moves":            {Plan{Affected: []PlannedReservation{moves}}, false, []PlannedOutcome{OutcomeMoves}},
		"one that waits":                      {Plan{Affected: []PlannedReservation{waits}}, true, []PlannedOutcome{OutcomeWaits}},
		"one that fails":                      {Plan{Affected: []PlannedReservation{fails}}, true, []PlannedOutcome{OutcomeEnds}},
		"one that is served thanks to it":     {Plan{Affected: []PlannedReservation{helped}}, false, []PlannedOutcome{OutcomeServed}},
		"one that would wait or fail anyway":  {Plan{Affected: []PlannedReservation{waitsAnyway, failsAnyway}}, false, []PlannedOutcome{OutcomeMoves, OutcomeMoves}},
		"requests that are served":            {Plan{Requests: []PlannedRequest{served}}, false, nil},
		"a request that is served only later": {Plan{Requests: []PlannedRequest{served, plannedDemand().Requests[2]}}, true, nil},
		"a request that is refused":           {Plan{Requests: []PlannedRequest{served, {Number: 2, Refused: "denied"}}}, true, nil},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			c.plan.Complete()
			var got []PlannedOutcome
			for i := range c.plan.Affected {
				got = append(got, c.plan.Affected[i].Outcome)
			}
			if diff := cmp.Diff(c.outcomes, got); diff != "" || c.plan.Harms() != c.harms {
				t.Errorf("harms: %v, want %v; outcomes (-want +got):\n%s", c.plan.Harms(), c.harms, diff)
			}
		})
	}
}
