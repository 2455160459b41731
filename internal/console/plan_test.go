package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// fixedPlans is a PlanSource that knows the clusters paris and turin. Its plans affect reservations with the given names.
type fixedPlans struct{ reservations []string }

func step(after time.Duration, phase, provider, perHour, why string) view.PlannedStep {
	s := view.PlannedStep{At: metav1.NewTime(noon.Add(after)), Phase: phase, Provider: provider, PerHour: perHour, Message: why}
	if perHour != "" {
		s.Currency = "EUR"
	}
	return s
}

func (f fixedPlans) Plan(_ context.Context, q PlanQuery) (*view.Plan, error) {
	lent := map[corev1.ResourceName]int64{"cpu": 64_000, "memory": 256 << 30}
	plan := &view.Plan{
		At: metav1.NewTime(noon), Until: metav1.NewTime(noon.Add(10 * time.Minute)), Record: 512,
		Without:     view.PlanTotals{Served: 41, Waiting: 6, PerHour: []view.PlannedPrice{{PerHour: "31.2", Currency: "EUR"}}, Lendable: lent, Free: map[corev1.ResourceName]int64{"cpu": 32_000, "memory": 64 << 30}},
		With:        view.PlanTotals{Served: 40, Waiting: 7, Lendable: map[corev1.ResourceName]int64{"cpu": 32_000}, Free: map[corev1.ResourceName]int64{"cpu": 1500}},
		Assumptions: []string{"nobody asks for anything else", "no cluster is silent"},
	}
	now := step(0, view.PlannedReserved, q.Cluster, "0.84", "")
	served := step(0, view.PlannedReserved, "oslo", "0.91", "")
	waits := step(0, view.PlannedQueued, "", "", "waits for capacity, place 1 of 1: no cluster can hold 8 of cpu")
	switch {
	case q.Change == "demand":
		plan.Change = "if a new cluster asked 3 times for 8 cores"
		plan.Requests = []view.PlannedRequest{{Number: 1, Steps: []view.PlannedStep{served}}, {Number: 2, Steps: []view.PlannedStep{served}}, {Number: 3, Steps: []view.PlannedStep{waits}}}
	case q.Change == "add":
		plan.Change = "if " + q.Cluster + " joined with 64 cores"
	case q.Cluster != "paris" && q.Cluster != "turin":
		return nil, fmt.Errorf("no cluster %q has advertised: choose one of paris, turin", q.Cluster)
	case q.Flags["notice"] == "-1s":
		return nil, errors.New("--notice must be at least 0s, not -1s")
	default:
		plan.Change = "if " + q.Cluster + " were drained with a notice of 10m0s"
	}
	for i, name := range f.reservations {
		r := view.PlannedReservation{
			Ref: view.Ref{Kind: "Reservation", Namespace: "default", Name: name}, Reservation: fmt.Sprintf("res-%03d", i), Requester: "rome",
			Resources: corev1.ResourceList{"cpu": resource.MustParse("8")}, Without: []view.PlannedStep{now},
		}
		after := []view.PlannedStep{served, waits, {At: waits.At, Phase: view.PlannedEnded, Reason: "Failed", Message: "the broker's administrator has drained " + q.Cluster}}[i%3]
		r.With = []view.PlannedStep{now, after}
		plan.Affected = append(plan.Affected, r)
	}
	plan.Complete()
	return plan, nil
}

// planServer returns a server for a console whose plans affect reservations with the given names.
func planServer(t *testing.T, reservations ...string) *httptest.Server {
	t.Helper()
	s := siteOf(&fixedObjects{view: brokerSnapshot(t)})
	s.plans = fixedPlans{reservations}
	server := httptest.NewTLSServer(newHandler(s))
	t.Cleanup(server.Close)
	return server
}

func TestPlansArePagedWithTheWorstOutcomesFirst(t *testing.T) {
	var names []string
	for i := range rowsPerPage + 50 {
		names = append(names, fmt.Sprintf("affected-%03d", i))
	}
	server := planServer(t, names...)
	_, first := get(t, server, "/plan?change=drain&cluster=paris", "admin")
	_, second := get(t, server, "/plan?change=drain&cluster=paris&after=100", "admin")
	if !strings.Contains(first, "150 reservations (50 ends, 50 waits, 50 moves)") || !strings.Contains(first, "default/affected-149") || strings.Contains(first, "default/affected-003") {
		t.Error("the first page must count all affected reservations, and show those that end and wait")
	}
	if !strings.Contains(second, "default/affected-003") || strings.Contains(second, "default/affected-149") || strings.Contains(second, "Next page") {
		t.Error("the second page must show those that move, and be the last")
	}
	if next := `href="/plan?after=100&amp;change=drain&amp;cluster=paris"`; !strings.Contains(first, next) {
		t.Errorf("the first page does not lead to the second:\n%s", first)
	}
}

// Users copy commands into a shell. A text from a link must stay one word there.
func TestPlanStatesACommandWhoseValuesAreSingleWords(t *testing.T) {
	tests := map[string]struct {
		values url.Values
		want   string
	}{
		"plain values":      {url.Values{"change": {"drain"}, "cluster": {"paris"}, "notice": {"1h"}, "cordon-only": {"true"}}, "kubectl broker plan drain paris --notice 1h --cordon-only"},
		"a substitution":    {url.Values{"change": {"add"}, "cluster": {"turin"}, "cpu": {"64"}, "region": {"$(id)"}}, "kubectl broker plan add turin --cpu 64 --region '$(id)'"},
		"a quote":           {url.Values{"change": {"demand"}, "cpu": {"4"}, "requester": {"o'slo; id"}}, `kubectl broker plan demand --cpu 4 --requester 'o'\''slo; id'`},
		"another flag":      {url.Values{"change": {"demand"}, "cpu": {"4"}, "requester": {"--kubeconfig"}}, "kubectl broker plan demand --cpu 4 --requester '--kubeconfig'"},
		"an unknown change": {url.Values{"change": {"price"}, "cluster": {"paris"}, "journal": {"other"}}, "kubectl broker plan drain paris"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodGet, "/plan?"+c.values.Encode(), nil)
			question := questionNamed(c.values.Get("change"))
			query, filled := question.queryOf(request)
			if got := question.command(query); got != c.want || !filled {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestPageOfAClusterLeadsToThePlanToDrainIt(t *testing.T) {
	const cluster, link = "/objects/clusteradvertisement/default/paris", `href="/plan?change=drain&amp;cluster=paris"`
	if _, body := get(t, planServer(t), cluster, "admin"); !strings.Contains(body, link) {
		t.Errorf("no link to the plan:\n%s", body)
	}
	if _, body := get(t, serve(t, &fixedObjects{view: brokerSnapshot(t)}), cluster, "admin"); strings.Contains(body, "/plan?") {
		t.Error("the console in the cluster makes no plans, but links to one")
	}
}

// The console makes no plan for a user who has not logged in, and none at all if it does not read the journal with the
// user's rights.
func TestPlansAreMadeOnlyWithTheUsersRights(t *testing.T) {
	if status, body := get(t, planServer(t, "served"), "/plan?change=drain&cluster=paris", "stranger"); status != http.StatusUnauthorized || strings.Contains(body, "served") {
		t.Errorf("a plan for a stranger: status %d", status)
	}
	if status, body := get(t, serve(t, &fixedObjects{view: brokerSnapshot(t)}), "/plan?change=drain&cluster=paris", "admin"); status != http.StatusOK || !strings.Contains(body, "does not make plans") {
		t.Errorf("the console in the cluster makes a plan: status %d", status)
	}
	if status, _ := get(t, serve(t, &fixedObjects{view: memberSnapshot(t)}), "/plan", "admin"); status != http.StatusNotFound {
		t.Errorf("a member has a page of plans: status %d", status)
	}
	// A user who may not list the reservation gets no link to a page that does not exist for this user, and no names of
	// clusters to choose from.
	if _, body := get(t, planServer(t, "served"), "/plan?change=drain&cluster=paris", "team"); strings.Contains(body, "/objects/") || strings.Contains(body, `value="oslo"`) {
		t.Errorf("the page links or offers objects that the user may not list:\n%s", body)
	}
}
