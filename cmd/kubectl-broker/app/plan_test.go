package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// plan returns what a plan prints for programs, and its exit code.
func (b *pastBench) plan(args ...string) (view.Plan, int) {
	b.t.Helper()
	args = append(append([]string{"plan"}, args...), "--kubeconfig", b.plane.Kubeconfig(), "-o", "json")
	code, text, talk := run(b.t, args...)
	var plan view.Plan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		b.t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, text, talk)
	}
	return plan, code
}

func (b *pastBench) reservation(name string) *brokerv1alpha1.Reservation {
	b.t.Helper()
	r := &brokerv1alpha1.Reservation{}
	if err := b.Get(b.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, r); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// planInConsole checks that the page Plan shows what the commands print, and has a field for each of their flags.
func (b *pastBench) planInConsole(drained string) {
	b.t.Helper()
	open := openConsole(b.t, b.plane.Kubeconfig(), "")
	for path, texts := range map[string][]string{
		"/plan?change=drain&notice=0s&cluster=" + drained:   {"1 reservation (1 waits)", `href="/objects/reservation/default/first"`, " plan drain " + drained + " --notice 0s"},
		"/plan?change=add&cluster=turin&cpu=8&memory=16Gi":  {"no reservation would lose its capacity", "16Gi"},
		"/plan?change=demand&cpu=1&memory=1Gi&times=6":      {"Capacity runs out with request", " plan demand --cpu 1 --memory 1Gi --times 6"},
		"/plan?change=drain&cluster=lyon":                   {"no cluster &#34;lyon&#34; has advertised: choose one of"},
		"/plan?change=drain&notice=soon&cluster=" + drained: {"invalid argument &#34;soon&#34; for &#34;--notice&#34; flag"},
		"/plan?change=add&cluster=turin":                    {"say what the cluster lends"},
		"/plan?change=demand&times=2":                       {"say what is requested"},
	} {
		status, body := open(path)
		for _, text := range texts {
			if status != http.StatusOK || !strings.Contains(body, text) {
				b.t.Errorf("%s: status %d, without %q:\n%s", path, status, text, body)
			}
		}
	}
	for name, create := range planners {
		_, body := open("/plan?change=" + name)
		create(&plugin{}).Flags().VisitAll(func(f *pflag.Flag) {
			ofOutput := slices.Contains([]string{"journal", "output", "template", "show-managed-fields", "allow-missing-template-keys"}, f.Name)
			if !ofOutput && !strings.Contains(body, `name="`+f.Name+`"`) {
				b.t.Errorf("the page has no field for --%s of kubectl broker plan %s", f.Name, name)
			}
		})
	}
}

// A plan reads the journal of a real broker, writes nothing, and works while the broker is down.
func TestPlanAgreesWithTheBroker(t *testing.T) {
	b := startBroker(t)
	b.apply(fmt.Sprintf(pastCluster, "paris") + "---" + fmt.Sprintf(pastCluster, "oslo"))
	for deadline := time.Now().Add(hangLimit); b.head() < 5 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
	}
	reserved := brokerv1alpha1.ReservationReserved
	b.apply(fmt.Sprintf(pastReservation, "first", 4, "Queue"))
	b.settled(map[string]brokerv1alpha1.ReservationPhase{"first": reserved})
	b.apply(fmt.Sprintf(pastReservation, "second", 6, "Fail"))
	_, before := b.settled(map[string]brokerv1alpha1.ReservationPhase{"first": reserved, "second": reserved})
	drained := b.reservation("first").Status.TargetClusterID

	plan, code := b.plan("drain", drained, "--notice", "0s")
	if len(plan.Affected) != 1 || plan.Affected[0].Name != "first" || plan.Affected[0].Namespace != "default" || plan.Affected[0].Outcome != view.OutcomeWaits || code != exitAttention {
		t.Fatalf("exit code %d and affected %+v, want 1 and that first waits", code, plan.Affected)
	}
	if plan.Record != before || b.head() != before {
		t.Errorf("the plan is of record %d, and the journal has %d now, want %d for both", plan.Record, b.head(), before)
	}
	if plan.Without.Served != 2 || plan.With.Served != 1 || plan.With.Waiting != 1 {
		t.Errorf("without the drain %+v, with it %+v", plan.Without, plan.With)
	}
	if _, text, _ := run(t, "drain", drained, "--notice", "0s", "--dry-run", "--kubeconfig", b.plane.Kubeconfig()); !strings.Contains(text, "AFFECTED: 1 reservation (1 waits)") {
		t.Errorf("drain --dry-run does not show the plan:\n%s", text)
	}
	if plan, code = b.plan("add", "turin", "--cpu", "8", "--memory", "16Gi"); len(plan.Affected) != 0 || code != exitDone {
		t.Errorf("a further cluster: exit code %d, affected %+v", code, plan.Affected)
	}

	b.planInConsole(drained)

	b.apply(fmt.Sprintf(pastReservation, "third", 7, "Queue"))
	for deadline := time.Now().Add(hangLimit); b.reservation("third").Status.Phase != brokerv1alpha1.ReservationQueued; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("third is not queued: %+v", b.reservation("third").Status)
		}
	}
	b.broker.Kill()

	plan, code = b.plan("add", "turin", "--cpu", "8", "--memory", "16Gi", "--ahead", "10m")
	if len(plan.Affected) != 1 || plan.Affected[0].Name != "third" || plan.Affected[0].Outcome != view.OutcomeServed || code != exitDone {
		t.Errorf("a further cluster: exit code %d, affected %+v, want 0 and that third is served", code, plan.Affected)
	}
	plan, code = b.plan("demand", "--cpu", "1", "--memory", "1Gi", "--times", "6")
	if len(plan.Requests) != 6 || plan.Requests[0].Steps[0].Provider == "" || len(plan.Requests[5].Steps) == 0 || plan.Requests[5].Steps[0].Phase != view.PlannedQueued || code != exitAttention {
		t.Errorf("exit code %d and requests %+v, want 1 and that the last waits", code, plan.Requests)
	}
	names, text, talk := run(t, "plan", "add", "turin", "--cpu", "8", "--memory", "16Gi", "--ahead", "10m", "-o", "name", "--kubeconfig", b.plane.Kubeconfig())
	if names != exitDone || text != "reservation.broker.fluidos.eu/third\n" {
		t.Errorf("-o name prints %q %s", text, talk)
	}
}
