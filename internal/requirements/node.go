package requirements

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// CheckNode returns an error unless the amounts contain cpu and memory. Without both, Liqo
// would never report the virtual node as Ready.
func CheckNode(amounts quantity.Amounts) error {
	for _, least := range [...]struct {
		name    corev1.ResourceName
		example string
	}{{corev1.ResourceCPU, "500m"}, {corev1.ResourceMemory, "256Mi"}} {
		if amounts[least.name] <= 0 {
			return fmt.Errorf("%s must be above zero, for example %s: a virtual node needs cpu and memory", least.name, least.example)
		}
	}
	return nil
}
