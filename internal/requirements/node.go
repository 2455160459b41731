package requirements

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// CheckNode returns an error unless the amounts contain cpu and memory, and whole pages. Without
// the first two, Liqo would never report the virtual node as Ready. A part of a page could never be
// used.
func CheckNode(amounts quantity.Amounts) error {
	for _, least := range [...]struct {
		name    corev1.ResourceName
		example string
	}{{corev1.ResourceCPU, "500m"}, {corev1.ResourceMemory, "256Mi"}} {
		if amounts[least.name] <= 0 {
			return fmt.Errorf("%s must be above zero, for example %s: a virtual node needs cpu and memory", least.name, least.example)
		}
	}
	for _, name := range amounts.Names() {
		size, huge := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
		page, err := resource.ParseQuantity(size)
		if huge && err == nil && page.Sign() > 0 && amounts[name]%page.Value() != 0 {
			return fmt.Errorf("%s: %s is not a multiple of the page size %s", name, quantity.Format(name, amounts[name]), size)
		}
	}
	return nil
}
