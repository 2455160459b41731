package quantity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// native lists the resources of Kubernetes itself, whose names have no domain.
var native = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage, corev1.ResourceStorage,
}

// CheckName returns an error for a name that no resource of a node can have, such as
// "cpus" or "gpu".
func CheckName(name corev1.ResourceName) error {
	if IsExtended(name) {
		if problems := validation.IsQualifiedName(string(name)); len(problems) > 0 {
			return fmt.Errorf("%q is not a resource name: %s", name, problems[0])
		}
		return nil
	}
	if slices.Contains(native, name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return nil
	}
	return fmt.Errorf("unknown resource %q: use cpu, memory, pods, ephemeral-storage, hugepages-<size>, or an extended resource with its domain, for example nvidia.com/gpu", name)
}

// IsExtended reports whether a resource is an extended one, such as nvidia.com/gpu.
func IsExtended(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }
