package wire

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// inNamespace returns requirements whose groups are distinct from groups of the same name in other
// namespaces of this cluster. The broker knows no namespaces: for it all groups of a cluster are
// the same requester's, and without this one namespace could keep another away from providers.
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

// groupIn returns the name of a namespace's group at the broker: the group, cut if it is long, and
// a hash of both names.
func groupIn(namespace, group string) string {
	const hashed = 16
	sum := sha256.Sum256([]byte(namespace + "/" + group))
	if most := validation.LabelValueMaxLength - hashed - 1; len(group) > most {
		group = group[:most]
	}
	return group + "." + hex.EncodeToString(sum[:])[:hashed]
}
