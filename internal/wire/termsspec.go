package wire

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// FromTermsSpec writes the terms of a ResourceRequest or Reservation into a request.
func FromTermsSpec(in *brokerv1alpha1.Requirements, out *v1.ReservationRequest) {
	out.Group = in.Group
	if in.Constraints != nil {
		out.Constraints = fromConstraintsSpec(in.Constraints)
	}
	for _, p := range in.PodShapes {
		out.PodShapes = append(out.PodShapes, v1.PodShape{Count: p.Count, Resources: FromResourceList(corev1.ResourceList(p.Resources))})
	}
	if d := in.Data; d != nil {
		out.Data = &v1.DataVolume{Volume: d.Volume.String(), Region: d.Region}
	}
}

func fromConstraintsSpec(in *brokerv1alpha1.Constraints) *v1.Constraints {
	out := &v1.Constraints{
		Regions: in.Regions, Zones: in.Zones, IncludeClusters: in.IncludeClusters, ExcludeClusters: in.ExcludeClusters,
		NodeSelector: FromLabels(in.NodeSelector), Affinity: in.Affinity, AntiAffinity: in.AntiAffinity,
		DataLocality: in.DataLocality, RequiredClaims: FromLabels(in.RequiredClaims),
	}
	if s := in.ClusterSelector; s != nil {
		out.ClusterSelector = &v1.LabelSelector{MatchLabels: FromLabels(s.MatchLabels)}
		for _, e := range s.MatchExpressions {
			out.ClusterSelector.MatchExpressions = append(out.ClusterSelector.MatchExpressions,
				v1.LabelExpression{Key: e.Key, Operator: v1.LabelExpressionOperator(e.Operator), Values: e.Values})
		}
	}
	if in.MaxPrice != nil {
		out.MaxPrice = &v1.Money{Amount: string(in.MaxPrice.Amount), Currency: in.MaxPrice.Currency}
	}
	return out
}

// ToTermsSpec is the reverse of FromTermsSpec.
func ToTermsSpec(in *v1.ReservationRequest) (brokerv1alpha1.Requirements, error) {
	out := brokerv1alpha1.Requirements{Group: in.Group}
	if in.Constraints != nil {
		out.Constraints = toConstraintsSpec(in.Constraints)
	}
	for _, p := range in.PodShapes {
		each, err := ToResourceList(p.Resources)
		if err != nil {
			return out, err
		}
		out.PodShapes = append(out.PodShapes, brokerv1alpha1.PodShape{Count: p.Count, Resources: brokerv1alpha1.PodResources(each)})
	}
	if d := in.Data; d != nil {
		volume, err := readQuantity("volume", d.Volume)
		if err != nil {
			return out, err
		}
		out.Data = &brokerv1alpha1.DataVolume{Volume: volume, Region: d.Region}
	}
	return out, nil
}

func toConstraintsSpec(in *v1.Constraints) *brokerv1alpha1.Constraints {
	out := &brokerv1alpha1.Constraints{
		Regions: in.Regions, Zones: in.Zones, IncludeClusters: in.IncludeClusters, ExcludeClusters: in.ExcludeClusters,
		NodeSelector: ToLabels(in.NodeSelector), Affinity: in.Affinity, AntiAffinity: in.AntiAffinity,
		DataLocality: in.DataLocality, RequiredClaims: ToLabels(in.RequiredClaims),
	}
	if s := in.ClusterSelector; s != nil {
		out.ClusterSelector = &brokerv1alpha1.ClusterSelector{MatchLabels: ToLabels(s.MatchLabels)}
		for _, e := range s.MatchExpressions {
			out.ClusterSelector.MatchExpressions = append(out.ClusterSelector.MatchExpressions,
				brokerv1alpha1.LabelExpression{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
		}
	}
	if in.MaxPrice != nil {
		out.MaxPrice = &brokerv1alpha1.Money{Amount: brokerv1alpha1.Price(in.MaxPrice.Amount), Currency: in.MaxPrice.Currency}
	}
	return out
}

// FromLabels converts labels or claims of a spec to plain strings. An empty map becomes nil.
func FromLabels(in map[string]brokerv1alpha1.LabelValue) map[string]string {
	return relabelAll[string](maps.All(in), len(in))
}

// ToLabels is the reverse of FromLabels.
func ToLabels(in map[string]string) map[string]brokerv1alpha1.LabelValue {
	return relabelAll[brokerv1alpha1.LabelValue](maps.All(in), len(in))
}

func relabelAll[To, From ~string](in func(func(string, From) bool), n int) map[string]To {
	if n == 0 {
		return nil
	}
	out := make(map[string]To, n)
	for key, value := range in {
		out[key] = To(value)
	}
	return out
}
