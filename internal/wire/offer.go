package wire

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// FromAdvertisement returns the message with which an agent publishes an Advertisement. The
// caller adds epoch, sequence and usage, which the Advertisement does not contain. Reserved and
// available amounts are omitted, because the broker computes them from the usage.
func FromAdvertisement(spec *agentv1alpha1.AdvertisementSpec) *v1.Advertisement {
	out := &v1.Advertisement{
		ClusterID:        spec.ClusterID,
		ClusterName:      spec.ClusterName,
		EndpointURL:      spec.EndpointURL,
		Capacity:         FromResourceList(spec.Resources.Capacity),
		Allocatable:      FromResourceList(spec.Resources.Allocatable),
		Allocated:        FromResourceList(spec.Resources.Allocated),
		OverSubscription: FromOverSubscription(spec.OverSubscription),
		NodeShapes:       FromNodeShapes(spec.NodeShapes),
		Labels:           FromLabels(spec.Labels),
		Claims:           FromLabels(spec.Claims),
	}
	if e := spec.Elastic; e != nil {
		out.Elastic = &v1.Elastic{Amounts: FromResourceList(e.Resources), Nodes: FromNodeShapes(e.Nodes), ReadyWithinSeconds: e.ReadyWithin.Seconds()}
	}
	if spec.Topology != nil {
		out.Topology = *spec.Topology
	}
	if spec.Cost != nil {
		out.Cost = *spec.Cost
	}
	if spec.Timestamp != nil {
		out.Timestamp = spec.Timestamp.Time
	}
	return out
}

// FromOverSubscription writes ratios for the network without checking them. The receiver checks
// them.
func FromOverSubscription(in brokerv1alpha1.OverSubscription) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for name, ratio := range in {
		out[string(name)] = string(ratio)
	}
	return out
}

// ToOverSubscription writes ratios as the text that the CRDs contain.
func ToOverSubscription(in quantity.Ratios) brokerv1alpha1.OverSubscription {
	if len(in) == 0 {
		return nil
	}
	out := make(brokerv1alpha1.OverSubscription, len(in))
	for name, text := range in.Texts() {
		out[name] = brokerv1alpha1.Ratio(text)
	}
	return out
}

// FromNodeShapes writes node shapes for the network.
func FromNodeShapes(in []brokerv1alpha1.NodeShape) []v1.NodeShape {
	if in == nil {
		return nil
	}
	out := make([]v1.NodeShape, len(in))
	for i, shape := range in {
		out[i] = v1.NodeShape{Count: shape.Count, Free: FromResourceList(shape.Free), NodeLabels: FromLabels(shape.NodeLabels), Taints: shape.Taints}
	}
	return out
}

// ToNodeShapes writes node shapes as the CRDs contain them; nil for none.
func ToNodeShapes(in []quantity.NodeShape) (out []brokerv1alpha1.NodeShape) {
	for _, s := range in {
		out = append(out, brokerv1alpha1.NodeShape{Count: int32(s.Count), Free: s.Free.ToResourceList(), NodeLabels: ToLabels(s.Labels), Taints: s.Taints})
	}
	return out
}

// ToElasticOffer writes the nodes that a cluster can create, and how much of them is lent, as the CRDs
// contain them.
func ToElasticOffer(lent quantity.Amounts, nodes []quantity.NodeShape, readyWithin time.Duration) *brokerv1alpha1.ElasticOffer {
	return &brokerv1alpha1.ElasticOffer{Resources: lent.ToResourceList(), Nodes: ToNodeShapes(nodes), ReadyWithin: metav1.Duration{Duration: readyWithin}}
}
