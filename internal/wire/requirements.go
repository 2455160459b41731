package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// FromRequirements writes the requirements of a ResourceRequest into the request for the broker.
func FromRequirements(in *brokerv1alpha1.Requirements, out *v1.ReservationRequest) {
	out.Group, out.Constraints = in.Group, in.Constraints
	out.PodShapes = FromPodShapes(in.PodShapes)
	if d := in.Data; d != nil {
		volume := d.Volume // a copy, because String changes its receiver
		out.Data = &v1.DataVolume{Volume: volume.String(), Region: d.Region}
	}
}

// ToRequirements reads and checks the requirements in a request from the network. The error names
// the field.
func ToRequirements(in *v1.ReservationRequest) (brokerv1alpha1.Requirements, error) {
	out := brokerv1alpha1.Requirements{Group: in.Group, Constraints: in.Constraints}
	var err error
	if out.PodShapes, err = toPodShapes(in.PodShapes); err != nil {
		return brokerv1alpha1.Requirements{}, err
	}
	if d := in.Data; d != nil {
		volume, err := readQuantity(string(corev1.ResourceStorage), d.Volume)
		if err != nil {
			return brokerv1alpha1.Requirements{}, fmt.Errorf("data.volume: %w", err)
		}
		out.Data = &brokerv1alpha1.DataVolume{Volume: volume, Region: d.Region}
	}
	return requirements.Read(&out)
}

// FromPodShapes writes pod shapes for the network.
func FromPodShapes(in []brokerv1alpha1.PodShape) (out []v1.PodShape) {
	for _, p := range in {
		out = append(out, v1.PodShape{Count: p.Count, Resources: FromResourceList(corev1.ResourceList(p.Resources))})
	}
	return out
}

func toPodShapes(in []v1.PodShape) (out []brokerv1alpha1.PodShape, err error) {
	for i, p := range in {
		each, err := ToResourceList(p.Resources)
		if err != nil {
			return nil, fmt.Errorf("podShapes[%d]: %w", i, err)
		}
		out = append(out, brokerv1alpha1.PodShape{Count: p.Count, Resources: brokerv1alpha1.PodResources(each)})
	}
	return out, nil
}

// FromLabels converts labels or claims from a spec to plain strings. It returns nil for an empty
// map.
func FromLabels(in map[string]brokerv1alpha1.LabelValue) map[string]string {
	return relabelled[string](maps.All(in), len(in))
}

// ToLabels converts plain strings to labels or claims of a spec. It returns nil for an empty map.
func ToLabels(in map[string]string) map[string]brokerv1alpha1.LabelValue {
	return relabelled[brokerv1alpha1.LabelValue](maps.All(in), len(in))
}

func relabelled[To, From ~string](in func(func(string, From) bool), n int) map[string]To {
	if n == 0 {
		return nil
	}
	out := make(map[string]To, n)
	for key, value := range in {
		out[key] = To(value)
	}
	return out
}

// inNamespace returns requirements in which the names of groups also depend on the namespace of the
// request. The broker does not know namespaces: for it, all groups of a cluster belong to the same
// requester. If the names did not depend on the namespace, a request in one namespace could use
// anti-affinity to keep requests of another namespace away from providers.
func inNamespace(namespace string, in *brokerv1alpha1.Requirements) *brokerv1alpha1.Requirements {
	k := in.Constraints
	if in.Group == "" && (k == nil || len(k.Affinity)+len(k.AntiAffinity) == 0) {
		return in
	}
	out := *in
	if in.Group != "" {
		out.Group = groupIn(namespace, in.Group)
	}
	if k != nil {
		out.Constraints = k.DeepCopy()
		for _, groups := range [][]string{out.Constraints.Affinity, out.Constraints.AntiAffinity} {
			for i := range groups {
				groups[i] = groupIn(namespace, groups[i])
			}
		}
	}
	return &out
}

// groupIn returns the name by which the broker knows a group of a namespace: the name of the
// group, shortened if it is too long, and a hash of namespace and group.
func groupIn(namespace, group string) string {
	const hashed = 16
	sum := sha256.Sum256([]byte(namespace + "/" + group))
	if most := validation.LabelValueMaxLength - hashed - 1; len(group) > most {
		group = group[:most]
	}
	return group + "." + hex.EncodeToString(sum[:])[:hashed]
}
