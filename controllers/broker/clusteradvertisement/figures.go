package clusteradvertisement

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// specOf is a spec with the book's figures. Of what an agent advertised all of it
// is the book's; of a manifest only reserved, available and the defaults are.
func specOf(v *broker.ClusterView, written *brokerv1alpha1.ClusterAdvertisementSpec) brokerv1alpha1.ClusterAdvertisementSpec {
	spec := *written.DeepCopy()
	if v.Agent {
		spec = agentSpec(v, written)
	}
	if spec.Resources.Capacity == nil {
		// A cluster without nodes has none, and the field is required.
		spec.Resources.Capacity = corev1.ResourceList{}
	}
	if spec.ClusterName == "" {
		spec.ClusterName = spec.ClusterID
	}
	if spec.Resources.Allocatable == nil {
		spec.Resources.Allocatable = spec.Resources.Capacity
	}
	if spec.Timestamp == nil {
		spec.Timestamp = seconds(v.Heard)
	}
	spec.Resources.Reserved = shown(v.Reserved)
	spec.Resources.Available = shown(v.Available)
	return spec
}

func agentSpec(v *broker.ClusterView, written *brokerv1alpha1.ClusterAdvertisementSpec) brokerv1alpha1.ClusterAdvertisementSpec {
	spec := brokerv1alpha1.ClusterAdvertisementSpec{
		ClusterID: v.ClusterID, ClusterName: v.ClusterName, EndpointURL: v.Endpoint,
		Resources: brokerv1alpha1.ResourceMetrics{
			Capacity: shown(v.Capacity), Allocatable: shown(v.Allocatable), Allocated: shown(v.Allocated),
		},
		OverSubscription: wire.ToOverSubscription(v.OverSubscription),
		// The time of every advertisement is not worth a write.
		Timestamp: written.Timestamp,
		Labels:    wire.ToLabels(v.Labels),
		Claims:    wire.ToLabels(v.Claims),
	}
	if v.Region != "" || v.Zone != "" {
		spec.Topology = &brokerv1alpha1.Topology{Region: v.Region, Zone: v.Zone}
	}
	for _, s := range v.Shapes {
		spec.NodeShapes = append(spec.NodeShapes, brokerv1alpha1.NodeShape{Count: s.Count, Free: shown(s.Free), NodeLabels: wire.ToLabels(s.Labels)})
	}
	if c := v.Cost; c != nil {
		spec.Cost = &brokerv1alpha1.Cost{
			CPUCost: c.CPU, MemoryCost: c.Memory, StorageCost: c.Storage, EgressCost: c.Egress, Currency: c.Currency,
		}
		for name, price := range c.Resources {
			if spec.Cost.ResourceCosts == nil {
				spec.Cost.ResourceCosts = map[corev1.ResourceName]brokerv1alpha1.Price{}
			}
			spec.Cost.ResourceCosts[corev1.ResourceName(name)] = brokerv1alpha1.Price(price)
		}
	}
	return spec
}

// shown leaves nothing as nothing, so that an unchanged spec compares equal.
func shown(a quantity.Amounts) corev1.ResourceList {
	if len(a) == 0 {
		return nil
	}
	return a.ToResourceList()
}

func seconds(t time.Time) *metav1.Time {
	out := metav1.Unix(t.Unix(), 0)
	return &out
}

// CheckOffer returns what the broker would refuse a manifest for.
func CheckOffer(obj *brokerv1alpha1.ClusterAdvertisement) error {
	offer, err := offerOf(obj)
	if err != nil {
		return err
	}
	return broker.CheckOffer(offer)
}

// offerOf reads a manifest.
func offerOf(obj *brokerv1alpha1.ClusterAdvertisement) (*ledger.Offer, error) {
	spec := &obj.Spec
	digest, err := digestOf(spec)
	if err != nil {
		return nil, err
	}
	o := &ledger.Offer{
		ClusterID: spec.ClusterID, ClusterName: spec.ClusterName, Endpoint: spec.EndpointURL,
		Labels: wire.FromLabels(spec.Labels), Claims: wire.FromLabels(spec.Claims),
		Source: &ledger.Manifest{
			ObjectRef: ledger.ObjectRef{Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID)},
			Digest:    digest,
		},
	}
	if spec.Topology != nil {
		o.Region, o.Zone = spec.Topology.Region, spec.Topology.Zone
	}
	if o.Capacity, err = amounts("capacity", spec.Resources.Capacity); err != nil {
		return nil, err
	}
	o.Allocatable = o.Capacity
	if spec.Resources.Allocatable != nil {
		if o.Allocatable, err = amounts("allocatable", spec.Resources.Allocatable); err != nil {
			return nil, err
		}
	}
	if o.Allocated, err = amounts("allocated", spec.Resources.Allocated); err != nil {
		return nil, err
	}
	if o.OverSubscription, err = quantity.ParseRatios(spec.OverSubscription); err != nil {
		return nil, fault.New(fault.Invalid, "spec.overSubscription: %v", err)
	}
	for _, s := range spec.NodeShapes {
		free, err := amounts("nodeShapes", s.Free)
		if err != nil {
			return nil, err
		}
		o.Shapes = append(o.Shapes, ledger.Shape{Count: s.Count, Free: free, Labels: wire.FromLabels(s.NodeLabels)})
	}
	if c := spec.Cost; c != nil {
		o.Cost = &ledger.Cost{
			CPU: c.CPUCost, Memory: c.MemoryCost, Storage: c.StorageCost, Egress: c.EgressCost, Currency: c.Currency,
		}
		for name, price := range c.ResourceCosts {
			if o.Cost.Resources == nil {
				o.Cost.Resources = map[string]string{}
			}
			o.Cost.Resources[string(name)] = string(price)
		}
	}
	return o, nil
}

func amounts(field string, list corev1.ResourceList) (quantity.Amounts, error) {
	a, err := quantity.FromResourceList(list)
	if err != nil {
		return nil, fault.New(fault.Invalid, "spec.resources.%s: %v", field, err)
	}
	return a, nil
}

// digestOf what the manifest's author can set, so that the broker's own figures do
// not look like news of the cluster.
func digestOf(spec *brokerv1alpha1.ClusterAdvertisementSpec) (string, error) {
	authored := spec.DeepCopy()
	authored.Resources.Reserved, authored.Resources.Available = nil, nil
	text, err := json.Marshal(authored)
	if err != nil {
		return "", fmt.Errorf("reading ClusterAdvertisement of %q: %w", spec.ClusterID, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

func statusOf(v *broker.ClusterView, obj *brokerv1alpha1.ClusterAdvertisement) brokerv1alpha1.ClusterAdvertisementStatus {
	status := brokerv1alpha1.ClusterAdvertisementStatus{
		Active: v.Phase == broker.ClusterActive, Phase: string(v.Phase), Score: v.Score.String(), Band: string(v.Score.Band()),
		Reservations: int32(v.Placements), OverSubscription: wire.ToOverSubscription(v.Stretch), LastReceived: obj.Status.LastReceived,
		Reliability:        reliabilityOf(v),
		Unreachable:        unreachableFrom(v),
		ObservedGeneration: obj.Generation, Conditions: slices.Clone(obj.Status.Conditions),
	}
	fresh := metav1.Condition{Type: brokerv1alpha1.ConditionFresh, Status: metav1.ConditionTrue, Reason: string(v.Phase), Message: "takes new reservations"}
	switch v.Phase {
	case broker.ClusterStale:
		fresh.Status, fresh.Message = metav1.ConditionFalse, "three advertisements were missed: nothing new is placed here, what runs keeps running; is the agent running?"
	case broker.ClusterInactive:
		fresh.Status, fresh.Message = metav1.ConditionFalse, "not heard of for longer than BrokerConfig.spec.staleThreshold: nothing new is placed here"
	}
	if v.Awaited != "" {
		status.Active = false
		fresh.Status, fresh.Reason, fresh.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonAwaitingHoldings,
			"nothing new is placed here before the agent has announced what it holds: "+v.Awaited
	}
	ready := fresh
	ready.Type = brokerv1alpha1.ConditionReady
	if ready.Status == metav1.ConditionTrue && v.Lending.IsPaused() {
		status.Active = false
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, string(lending.LendingPaused),
			"nothing new is placed here: the LendingPolicy of the cluster pauses lending, what runs stays"
	}
	for _, c := range append([]metav1.Condition{ready, fresh, plausible(v), withinBudget(v)}, conductConditions(v, obj)...) {
		c.ObservedGeneration = obj.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
	was := obj.Status
	if was.LastReceived == nil || was.Phase != status.Phase || was.Score != status.Score || was.Reservations != status.Reservations {
		status.LastReceived = seconds(v.Heard)
	}
	return status
}

func unreachableFrom(v *broker.ClusterView) []brokerv1alpha1.UnreachableCluster {
	var out []brokerv1alpha1.UnreachableCluster
	for _, s := range v.Unreachable {
		out = append(out, brokerv1alpha1.UnreachableCluster{ClusterID: s.ClusterID, Since: *seconds(s.Since)})
	}
	return out
}

// reliabilityOf is nil where nothing was granted here yet.
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

func plausible(v *broker.ClusterView) metav1.Condition {
	c := metav1.Condition{
		Type: brokerv1alpha1.ConditionPlausible, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ConditionPlausible,
		Message: "the figures agree with each other",
	}
	if len(v.Doubts) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonImplausible
		c.Message = strings.Join(v.Doubts, "; ") + ": look at the cluster; BrokerConfig.spec.deniedClusters keeps it from providing"
	}
	return c
}

func withinBudget(v *broker.ClusterView) metav1.Condition {
	c := metav1.Condition{
		Type: brokerv1alpha1.ConditionWithinBudget, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ConditionWithinBudget,
		Message: "the cluster keeps within its budget of the broker",
	}
	if len(v.OverBudget) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonOverBudget
		c.Message = message.Clip(strings.Join(v.OverBudget, "; "), maxBudgetMessage)
	}
	return c
}

// maxBudgetMessage is what a condition may say.
const maxBudgetMessage = 4096

func refusalOf(cause error, obj *brokerv1alpha1.ClusterAdvertisement) brokerv1alpha1.ClusterAdvertisementStatus {
	status := brokerv1alpha1.ClusterAdvertisementStatus{
		Phase: string(broker.ClusterInactive), ObservedGeneration: obj.Generation, Conditions: slices.Clone(obj.Status.Conditions),
	}
	for _, kind := range []string{brokerv1alpha1.ConditionReady, brokerv1alpha1.ConditionFresh} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: string(fault.ReasonOf(cause)),
			Message: cause.Error(), ObservedGeneration: obj.Generation,
		})
	}
	return status
}
