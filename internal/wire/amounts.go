// Package wire converts between the types of the REST API (api/rest/v1), the types of the CRDs, and
// amounts in base units. It only converts: it returns an error for values that it cannot read, and
// decides nothing else.
package wire

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// maxResources is how many resources one set of amounts may name. The largest known node lists
// about twenty.
const maxResources = 64

// sane matches the quantities that are accepted from the network. Exponents of two digits suffice
// for every valid amount. Larger ones are refused before they are parsed, because comparing a
// quantity such as 1e2147483647 would take minutes of processor time.
var sane = regexp.MustCompile(`^[+-]?[0-9.]{1,32}([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE])?$`)

// ToAmounts reads amounts from the network. If several resources are invalid, its error is always
// about the same one, whatever the order of the map.
func ToAmounts(in v1.Amounts) (quantity.Amounts, error) {
	list, err := ToResourceList(in)
	if err != nil {
		return nil, err
	}
	return quantity.FromResourceList(list)
}

// FromAmounts writes amounts for the network, as ToAmounts reads them.
func FromAmounts(in quantity.Amounts) v1.Amounts {
	if in == nil {
		return nil
	}
	out := make(v1.Amounts, len(in))
	for name, amount := range in {
		out[string(name)] = quantity.Format(name, amount)
	}
	return out
}

// ToResourceList reads amounts from the network as Kubernetes quantities. Unlike ToAmounts, it
// also accepts negative amounts, amounts above quantity.Limit, and fractions of resources that are
// counted in pieces.
func ToResourceList(in v1.Amounts) (corev1.ResourceList, error) {
	if in == nil {
		return nil, nil
	}
	if len(in) > maxResources {
		return nil, fmt.Errorf("%d resources are named: at most %d are accepted", len(in), maxResources)
	}
	out := make(corev1.ResourceList, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		q, err := readQuantity(name, in[name])
		if err != nil {
			return nil, err
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}

// FromResourceList writes quantities for the network, as ToResourceList reads them.
func FromResourceList(in corev1.ResourceList) v1.Amounts {
	if in == nil {
		return nil
	}
	out := make(v1.Amounts, len(in))
	for name, q := range in {
		out[string(name)] = q.String()
	}
	return out
}

func readQuantity(name, value string) (resource.Quantity, error) {
	if problems := validation.IsQualifiedName(name); len(problems) > 0 {
		return resource.Quantity{}, fmt.Errorf("resource %q is not a resource name: %s", message.Clip(name, 80), problems[0])
	}
	if !sane.MatchString(value) {
		return resource.Quantity{}, fmt.Errorf("resource %q: %q is not a quantity such as 500m, 4Gi or 2", name, message.Clip(value, 40))
	}
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("resource %q: %q is not a quantity such as 500m, 4Gi or 2: %w", name, value, err)
	}
	return q, nil
}
