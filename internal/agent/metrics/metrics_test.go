package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/reservationinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func TestOperationsAreThoseOfTheAPI(t *testing.T) {
	var description struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := yaml.Unmarshal(v1.OpenAPI, &description); err != nil || len(description.Paths) < 10 {
		t.Fatalf("%d paths, %v", len(description.Paths), err)
	}
	for path, item := range description.Paths {
		for method, text := range item {
			var operation struct {
				OperationID string `json:"operationId"`
			}
			if json.Unmarshal(text, &operation) != nil {
				continue // this key holds the parameters of all operations, and no operation
			}
			url := "https://broker.example.com:8443" + strings.ReplaceAll(path, "{name}", "res-k3v9x2m7qa")
			request, err := http.NewRequest(strings.ToUpper(method), url, nil)
			runtest.Check(t, err)
			if got := operationOf(request); got != operation.OperationID {
				t.Errorf("%s %s is called %q, want %q", method, path, got, operation.OperationID)
			}
		}
	}
	unknown, _ := http.NewRequest(http.MethodGet, "https://broker.example.com/api/v1/invented/../../x", nil)
	if got := operationOf(unknown); got != "other" {
		t.Errorf("an unknown path is called %q", got)
	}
}

func TestBrokerIsUpIfItAnsweredTheLastCall(t *testing.T) {
	now := time.Unix(0, 0)
	elected := make(chan struct{})
	m := NewCallMeter(func() time.Time { return now }, elected)
	request, _ := http.NewRequest(http.MethodGet, "https://broker.example.com/api/v1/ping", nil)
	for _, step := range []struct {
		err  error
		want float64
	}{
		{nil, 1},
		{errors.New("connection refused"), 0},
		{context.Canceled, 0}, // the caller gave up, so nothing is known
		{nil, 1},
		{context.Canceled, 1},
	} {
		m.WatchAttempt(request)(nil, step.err) //nolint:bodyclose // there is no response
		if got := testutil.ToFloat64(m.up); got != step.want {
			t.Errorf("after %v the broker is up: %v, want %v", step.err, got, step.want)
		}
	}
	for _, want := range []int{0, 1} {
		if n := testutil.CollectAndCount(m, "agent_broker_up"); n != want {
			t.Errorf("%d series say whether the broker is up, want %d", n, want)
		}
		if want == 0 {
			close(elected)
		}
	}
}

func TestStateMetricsFollowTheObjects(t *testing.T) {
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	cpu := func(n int) corev1.ResourceList {
		return corev1.ResourceList{"cpu": *resource.NewQuantity(int64(n), resource.DecimalSI)}
	}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "agent", Name: name} }
	lent := func(name string, n int, phase agentv1alpha1.InstructionPhase) client.Object {
		return &agentv1alpha1.ProviderInstruction{ObjectMeta: in(name), Status: agentv1alpha1.ProviderInstructionStatus{Phase: phase, Granted: cpu(n)}}
	}
	borrowed := func(name string, n int, phase agentv1alpha1.InstructionPhase) client.Object {
		return &agentv1alpha1.ReservationInstruction{
			ObjectMeta: in(name), Spec: agentv1alpha1.ReservationInstructionSpec{Resources: cpu(n)}, Status: agentv1alpha1.ReservationInstructionStatus{Phase: phase},
		}
	}
	adv := &agentv1alpha1.Advertisement{ObjectMeta: in("own"), Status: agentv1alpha1.AdvertisementStatus{
		Conditions: []metav1.Condition{{Type: agentv1alpha1.ConditionLiqoReady, Status: metav1.ConditionTrue}},
	}}
	elected := make(chan struct{})
	c := &StateCollector{
		Elected: elected, Namespace: "agent", Advertised: client.ObjectKeyFromObject(adv),
		Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
			lent("a", 4, agentv1alpha1.InstructionActive), lent("b", 2, ""), borrowed("c", 8, agentv1alpha1.InstructionActive),
			borrowed("d", 16, agentv1alpha1.InstructionReleased), adv).Build(),
		UsedAmounts: func() map[string]quantity.Amounts { return map[string]quantity.Amounts{"a": {"cpu": 1500}} },
	}
	if n := testutil.CollectAndCount(c); n != 1 {
		t.Errorf("a replica that is not elected exports %d series, want its version only", n)
	}
	close(elected)
	want := `
# HELP agent_borrowed_resource Capacity of other clusters that placements of this cluster reserve.
# TYPE agent_borrowed_resource gauge
agent_borrowed_resource{resource="cpu",unit="core"} 8
# HELP agent_lent_resource Capacity lent to other clusters: granted to placements, and used by their pods.
# TYPE agent_lent_resource gauge
agent_lent_resource{resource="cpu",state="granted",unit="core"} 6
agent_lent_resource{resource="cpu",state="used",unit="core"} 1.5
# HELP agent_liqo_ready 1 if condition LiqoReady of the Advertisement is True, else 0. Absent without peering.
# TYPE agent_liqo_ready gauge
agent_liqo_ready 1
# HELP agent_reservations Placements of this cluster by its role and their phase.
# TYPE agent_reservations gauge
` + phases("consumer", map[string]int{"Active": 1, "Released": 1}) + phases("provider", map[string]int{"Active": 1, "Pending": 1})
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "agent_borrowed_resource", "agent_lent_resource", "agent_liqo_ready", "agent_reservations"); err != nil {
		t.Error(err)
	}
}

// phases returns the series of agent_reservations of a role. Every phase but Released has a series
// even if no placement is in it.
func phases(role string, counts map[string]int) string {
	var text strings.Builder
	for _, phase := range []string{"Active", "AwaitingNode", "Peering", "Pending", "Released", "Releasing"} {
		if n, counted := counts[phase]; counted || phase != "Released" {
			fmt.Fprintf(&text, "agent_reservations{phase=%q,role=%q} %d\n", phase, role, n)
		}
	}
	return text.String()
}

func TestDurationsHaveASeriesBeforeTheFirstHandshakeOrDrain(t *testing.T) {
	m := NewDurationMeter()
	if steps, results := testutil.CollectAndCount(m.Handshakes), testutil.CollectAndCount(m.Drains); steps != 5 || results != 3 {
		t.Errorf("%d steps and %d results have a series, want 5 and 3", steps, results)
	}
	m.ObserveStep(plan.AwaitIdentity, 1500*time.Millisecond)
	m.ObserveDrain(reservationinstruction.DrainDeleted, 5*time.Minute)
	if diff := cmp.Diff(map[string]float64{"challenge": 0, "credentials": 0, "identity": 1.5, "answer": 0, "certificate": 0}, sumsOf(t, m.Handshakes)); diff != "" {
		t.Errorf("seconds by step (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]float64{"evicted": 0, "deleted": 300, "left": 0}, sumsOf(t, m.Drains)); diff != "" {
		t.Errorf("seconds by result (-want +got):\n%s", diff)
	}
}

// sumsOf returns the sum of each histogram by the value of its only label. It fails the test unless
// each is exported with buckets and as a native histogram.
func sumsOf(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	runtest.Check(t, registry.Register(c))
	families, err := registry.Gather()
	runtest.Check(t, err)
	sums := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		h := m.GetHistogram()
		if h.Schema == nil || len(h.GetBucket()) < 10 {
			t.Errorf("%v is not exported in both forms", m.GetLabel())
		}
		sums[m.GetLabel()[0].GetValue()] = h.GetSampleSum()
	}
	return sums
}
