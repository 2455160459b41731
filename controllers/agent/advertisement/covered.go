package advertisement

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// missingAmounts returns how much of the reserved but unused capacity is not available now, because
// this cluster's own pods request it or because nodes are gone. Of an over-subscribed resource,
// only the demand above allocatable × ratio is missing. Capacity of nodes that are being created is not
// missing.
func (o *offer) missingAmounts() quantity.Amounts {
	unused, coming := quantity.Amounts{}, quantity.Amounts{}
	for _, u := range o.usage {
		if u.awaitsNodes {
			coming = coming.Add(u.amounts)
			continue
		}
		unused = unused.Add(u.amounts.Sub(u.used).Max(nil))
	}
	short := o.own.Add(o.reserved).Sub(coming).Sub(o.stretched)
	out := quantity.Amounts{}
	for name, amount := range short {
		if amount = min(amount, unused[name]); amount > 0 {
			out[name] = amount
		}
	}
	return out
}

func coveredCondition(missing quantity.Amounts) metav1.Condition {
	c := metav1.Condition{
		Type: agentv1alpha1.ConditionReservationsCovered, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonCovered,
		Message: "all reserved capacity is free, or used by its reservations",
	}
	if len(missing) == 0 {
		return c
	}
	words := make([]string, 0, len(missing))
	for _, name := range missing.Names() {
		words = append(words, fmt.Sprintf("%s %s", quantity.Format(name, missing[name]), name))
	}
	c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonReservedCapacityTaken
	c.Message = fmt.Sprintf("%s of reserved capacity is requested by this cluster's own pods, or was lost with its nodes: "+
		"free it before the consumers' pods arrive, and set --hold=Placeholder", strings.Join(words, ", "))
	return c
}

// newGauge creates a metric of amounts.
func newGauge(o prometheus.GaugeOpts) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(o, []string{"resource"})
}

// setMetric sets a metric to the given amounts. It sets the cluster's other resources to 0.
func (o *offer) setMetric(metric *prometheus.GaugeVec, amounts quantity.Amounts) {
	metric.Reset()
	list := amounts.ToResourceList()
	for name := range o.allocatable.Add(amounts) {
		amount := list[name]
		metric.WithLabelValues(string(name)).Set(amount.AsApproximateFloat64())
	}
}
