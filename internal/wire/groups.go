package wire

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

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
