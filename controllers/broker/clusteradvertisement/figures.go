package clusteradvertisement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// specOf returns the spec to write. For a cluster with an agent, all of it comes from the broker. Otherwise it is the
// spec that an administrator wrote, with reserved, available and the defaults set.
func specOf(v *broker.ClusterView, written *brokerv1alpha1.ClusterAdvertisementSpec) brokerv1alpha1.ClusterAdvertisementSpec {
	spec := *written.DeepCopy()
	if v.Agent {
		spec = agentSpec(v, written)
	}
	if spec.Resources.Capacity == nil {
		// A cluster without nodes has no capacity, but the API server requires the field.
		spec.Resources.Capacity = corev1.ResourceList{}
	}
	if spec.ClusterName == "" {
		spec.ClusterName = spec.ClusterID
	}
	if spec.Resources.Allocatable == nil {
		spec.Resources.Allocatable = spec.Resources.Capacity
	}
	if spec.Timestamp == nil {
		spec.Timestamp = truncateToSeconds(v.Heard)
	}
	spec.Resources.Reserved = toResourceList(v.Reserved)
	spec.Resources.Available = toResourceList(v.Available)
	return spec
}

func agentSpec(v *broker.ClusterView, written *brokerv1alpha1.ClusterAdvertisementSpec) brokerv1alpha1.ClusterAdvertisementSpec {
	spec := brokerv1alpha1.ClusterAdvertisementSpec{
		ClusterID: v.ClusterID, ClusterName: v.ClusterName, EndpointURL: v.Endpoint,
		Resources: brokerv1alpha1.ResourceMetrics{
			Capacity: toResourceList(v.Capacity), Allocatable: toResourceList(v.Allocatable), Allocated: toResourceList(v.Allocated),
		},
		OverSubscription: wire.ToOverSubscription(v.OverSubscription),
		// The timestamp stays, because a new timestamp alone does not justify a write.
		Timestamp: written.Timestamp,
		Labels:    wire.ToLabels(v.Labels),
		Claims:    wire.ToLabels(v.Claims),
		Cost:      v.Cost.DeepCopy(),
	}
	if v.Region != "" || v.Zone != "" {
		spec.Topology = &brokerv1alpha1.Topology{Region: v.Region, Zone: v.Zone}
	}
	spec.NodeShapes = wire.ToNodeShapes(v.Shapes)
	if e := v.Elastic; e != nil {
		spec.Elastic = wire.ToElasticOffer(e.Amounts, e.Nodes, e.ReadyWithin)
	}
	return spec
}

// toResourceList converts amounts to a ResourceList. It returns nil if there are none, so that an unchanged spec
// compares equal.
func toResourceList(a quantity.Amounts) corev1.ResourceList {
	if len(a) == 0 {
		return nil
	}
	return a.ToResourceList()
}

func truncateToSeconds(t time.Time) *metav1.Time {
	out := metav1.Unix(t.Unix(), 0)
	return &out
}

func statusOf(v *broker.ClusterView, obj *brokerv1alpha1.ClusterAdvertisement) brokerv1alpha1.ClusterAdvertisementStatus {
	status := brokerv1alpha1.ClusterAdvertisementStatus{
		Score: v.Score.String(), Band: string(v.Score.Band()),
		Reservations: int32(v.Placements), OverSubscription: wire.ToOverSubscription(v.Stretch), LastReceived: obj.Status.LastReceived,
		Reliability:        reliabilityOf(v),
		Unreachable:        unreachableFrom(v),
		Pending:            toResourceList(v.Pending.Requests),
		ObservedGeneration: obj.Generation, Conditions: slices.Clone(obj.Status.Conditions),
	}
	if !v.Pending.Since.IsZero() {
		status.PendingSince = truncateToSeconds(v.Pending.Since)
	}
	fresh := metav1.Condition{Type: brokerv1alpha1.ConditionFresh, Status: metav1.ConditionTrue, Reason: string(v.Phase), Message: "advertises in time"}
	switch v.Phase {
	case term.Stale:
		fresh.Status, fresh.Message = metav1.ConditionFalse, "three advertisements were missed: no new placements, running workloads are not affected; check that the agent is running"
	case term.Inactive:
		fresh.Status, fresh.Message = metav1.ConditionFalse, "silent for longer than BrokerConfig.spec.staleThreshold: no new placements"
	}
	if v.Awaited != "" {
		fresh.Status, fresh.Reason, fresh.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonAwaitingHoldings,
			"no new placements until the agent has announced its holdings: "+v.Awaited
	}
	ready := readyCondition(v, fresh)
	status.Active = ready.Status == metav1.ConditionTrue
	status.Phase = phaseOf(v, status.Active)
	for _, c := range append([]metav1.Condition{ready, fresh, plausibleCondition(v), withinBudgetCondition(v)}, conductConditions(v, obj)...) {
		c.ObservedGeneration = obj.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
	setDrained(&status, v, obj.Generation)
	was := obj.Status
	if was.LastReceived == nil || was.Phase != status.Phase || was.Score != status.Score || was.Reservations != status.Reservations {
		status.LastReceived = truncateToSeconds(v.Heard)
	}
	return status
}

// phaseOf returns the phase for the status. It is Active only for a cluster that takes new reservations.
func phaseOf(v *broker.ClusterView, takesReservations bool) string {
	switch {
	case v.Denied:
		return brokerv1alpha1.ClusterAdvertisementDenied
	case v.Phase == term.Active && !takesReservations:
		return brokerv1alpha1.ClusterAdvertisementPaused
	}
	return string(v.Phase)
}

// readyCondition returns the condition Ready, which is true if the cluster can get new placements.
func readyCondition(v *broker.ClusterView, fresh metav1.Condition) metav1.Condition {
	ready := fresh
	ready.Type = brokerv1alpha1.ConditionReady
	refuse := func(reason, why string) metav1.Condition {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reason, "no new placements: "+why
		return ready
	}
	switch {
	case v.Denied:
		return refuse(string(decision.Denied), "BrokerConfig.spec.deniedClusters lists the cluster, or approvedClusters does not; running workloads stay")
	case v.Drain != nil:
		return refuse(string(decision.Cordoned), describeCordon(v.Drain))
	case v.Lending.IsLeaving():
		return refuse(string(lending.ProviderLeaving),
			"the cluster's agent is being uninstalled, or was; broker forget removes a cluster that does not return")
	case fresh.Status != metav1.ConditionTrue:
		return ready
	case v.Lending.IsPaused():
		return refuse(string(lending.LendingPaused), "the cluster's LendingPolicy pauses lending, running workloads stay")
	case v.Lending != nil && v.Lending.Unready != "" && !v.Lending.SkipsPeering():
		return refuse(string(lending.ProviderNotReady),
			fmt.Sprintf("the cluster reports that its Liqo does not work (%s), see condition LiqoReady of its Advertisement", v.Lending.Unready))
	case v.Standing != nil && v.Standing.Paused.Why != "" && !v.Standing.Paused.LastResort:
		return refuse(string(decision.Paused), v.Standing.Paused.Why+", see condition Reliable; running workloads stay")
	}
	ready.Message = "takes new reservations"
	return ready
}

func unreachableFrom(v *broker.ClusterView) []brokerv1alpha1.UnreachableCluster {
	var out []brokerv1alpha1.UnreachableCluster
	for _, s := range v.Unreachable {
		out = append(out, brokerv1alpha1.UnreachableCluster{ClusterID: s.ClusterID, Since: *truncateToSeconds(s.Since)})
	}
	return out
}

// reliabilityOf returns the outcomes of the cluster's placements, or nil if it never got one.
func reliabilityOf(v *broker.ClusterView) *brokerv1alpha1.Reliability {
	r := v.Record
	if r.Granted == 0 {
		return nil
	}
	out := &brokerv1alpha1.Reliability{
		Granted: r.Granted, Ready: r.Ready, Refused: r.Refused, Unanswered: r.Unanswered, NeverReady: r.NeverReady, Dropped: r.Dropped,
	}
	if v.Reliability != nil {
		out.Score = fmt.Sprintf("%.2f", 100**v.Reliability)
	}
	if r.Ready > 0 {
		out.MeanTimeToReady = &metav1.Duration{Duration: r.MeanToReady().Round(time.Second)}
	}
	return out
}

// goodCondition returns a condition that is true, with its type as reason.
func goodCondition(kind, text string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: text}
}

func plausibleCondition(v *broker.ClusterView) metav1.Condition {
	c := goodCondition(brokerv1alpha1.ConditionPlausible, "the figures agree with each other")
	if len(v.Doubts) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonImplausible
		c.Message = strings.Join(v.Doubts, "; ") + ": check the cluster; BrokerConfig.spec.deniedClusters stops it from providing"
	}
	return c
}

func withinBudgetCondition(v *broker.ClusterView) metav1.Condition {
	c := goodCondition(brokerv1alpha1.ConditionWithinBudget, "the cluster is within its budget")
	if len(v.OverBudget) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonOverBudget
		c.Message = message.Clip(strings.Join(v.OverBudget, "; "), maxBudgetMessage)
	}
	return c
}

// maxBudgetMessage is the largest length of the message of the condition WithinBudget, in bytes.
const maxBudgetMessage = 4096

func refusalOf(cause error, obj *brokerv1alpha1.ClusterAdvertisement) brokerv1alpha1.ClusterAdvertisementStatus {
	status := brokerv1alpha1.ClusterAdvertisementStatus{
		Phase: string(term.Inactive), ObservedGeneration: obj.Generation, Conditions: slices.Clone(obj.Status.Conditions),
	}
	for _, kind := range []string{brokerv1alpha1.ConditionReady, brokerv1alpha1.ConditionFresh} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: string(fault.ReasonOf(cause)),
			Message: cause.Error(), ObservedGeneration: obj.Generation,
		})
	}
	return status
}
