package metrics

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

var (
	agentBuildInfo    = prometheus.NewDesc("agent_build_info", "Always 1; the label says which version runs.", []string{"version"}, nil)
	agentReservations = prometheus.NewDesc("agent_reservations", "Placements of this cluster by its role and their phase.", []string{"role", "phase"}, nil)
	agentLent         = prometheus.NewDesc("agent_lent_resource", "Capacity lent to other clusters: granted to placements, and used by their pods.", []string{"resource", "unit", "state"}, nil)
	agentBorrowed     = prometheus.NewDesc("agent_borrowed_resource", "Capacity of other clusters that placements of this cluster reserve.", []string{"resource", "unit"}, nil)
	agentReady        = prometheus.NewDesc("agent_liqo_ready", "1 if condition LiqoReady of the Advertisement is True, else 0. Absent without peering.", nil, nil)
)

// StateCollector exports metrics of the agent's objects. Only the leading replica does so.
type StateCollector struct {
	// Elected is closed once this replica leads.
	Elected <-chan struct{}
	Reader  client.Reader
	// Namespace is the namespace of the instructions, Advertised the namespace and name of the Advertisement.
	Namespace  string
	Advertised client.ObjectKey
	// UsedAmounts returns what the pods of each placement request.
	UsedAmounts func() map[string]quantity.Amounts
}

// Describe implements prometheus.Collector.
func (c *StateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{agentBuildInfo, agentReservations, agentLent, agentBorrowed, agentReady} {
		out <- d
	}
}

// scrapeTimeout limits the reads from the cache, which may not be filled yet.
const scrapeTimeout = 2 * time.Second

// Collect implements prometheus.Collector. It leaves out objects that cannot be read.
func (c *StateCollector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(agentBuildInfo, prometheus.GaugeValue, 1, version.String())
	select {
	case <-c.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var lent agentv1alpha1.ProviderInstructionList
	if c.Reader.List(ctx, &lent, client.InNamespace(c.Namespace)) == nil {
		c.collectLent(lent.Items, out)
	}
	var borrowed agentv1alpha1.ReservationInstructionList
	if c.Reader.List(ctx, &borrowed, client.InNamespace(c.Namespace)) == nil {
		collectBorrowed(borrowed.Items, out)
	}
	var adv agentv1alpha1.Advertisement
	if c.Reader.Get(ctx, c.Advertised, &adv) == nil {
		if ready := meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionLiqoReady); ready != nil {
			out <- prometheus.MustNewConstMetric(agentReady, prometheus.GaugeValue, numberOf(meta.IsStatusConditionTrue(adv.Status.Conditions, ready.Type)))
		}
	}
}

func (c *StateCollector) collectLent(items []agentv1alpha1.ProviderInstruction, out chan<- prometheus.Metric) {
	phases, granted, used := newPhases(), corev1.ResourceList{}, quantity.Amounts{}
	for i := range items {
		phases[phaseOf(items[i].Status.Phase)]++
		addQuantities(granted, items[i].Status.Granted)
	}
	for _, amounts := range c.UsedAmounts() {
		used.AddInPlace(amounts)
	}
	sendPhases(out, v1.InstructionRoleProvider, phases)
	usedQuantities := used.ToResourceList()
	for name, q := range granted {
		taken := usedQuantities[name]
		out <- prometheus.MustNewConstMetric(agentLent, prometheus.GaugeValue, q.AsApproximateFloat64(), string(name), unitOf(name), "granted")
		out <- prometheus.MustNewConstMetric(agentLent, prometheus.GaugeValue, taken.AsApproximateFloat64(), string(name), unitOf(name), "used")
	}
}

func collectBorrowed(items []agentv1alpha1.ReservationInstruction, out chan<- prometheus.Metric) {
	phases, borrowed := newPhases(), corev1.ResourceList{}
	for i := range items {
		phase := phaseOf(items[i].Status.Phase)
		phases[phase]++
		if phase != agentv1alpha1.InstructionReleased && phase != agentv1alpha1.InstructionRefused {
			addQuantities(borrowed, items[i].Spec.Resources)
		}
	}
	sendPhases(out, v1.InstructionRoleConsumer, phases)
	for name, q := range borrowed {
		out <- prometheus.MustNewConstMetric(agentBorrowed, prometheus.GaugeValue, q.AsApproximateFloat64(), string(name), unitOf(name))
	}
}

// newPhases returns a count of 0 for every phase, so that each phase has a time series from the
// start.
func newPhases() map[agentv1alpha1.InstructionPhase]int {
	return map[agentv1alpha1.InstructionPhase]int{
		agentv1alpha1.InstructionPending: 0, agentv1alpha1.InstructionPeering: 0, agentv1alpha1.InstructionAwaitingNode: 0,
		agentv1alpha1.InstructionActive: 0, agentv1alpha1.InstructionReleasing: 0,
	}
}

// phaseOf returns the phase of an instruction. An instruction without a status is Pending.
func phaseOf(phase agentv1alpha1.InstructionPhase) agentv1alpha1.InstructionPhase {
	if phase == "" {
		return agentv1alpha1.InstructionPending
	}
	return phase
}

func sendPhases(out chan<- prometheus.Metric, role v1.InstructionRole, phases map[agentv1alpha1.InstructionPhase]int) {
	for phase, n := range phases {
		out <- prometheus.MustNewConstMetric(agentReservations, prometheus.GaugeValue, float64(n), strings.ToLower(string(role)), string(phase))
	}
}

func addQuantities(sum, more corev1.ResourceList) {
	for name, q := range more {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

func unitOf(name corev1.ResourceName) string {
	switch {
	case name == corev1.ResourceCPU:
		return "core"
	case quantity.InBytes(name):
		return "byte"
	}
	return "unit"
}
