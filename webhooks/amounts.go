package webhooks

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// amountPattern is the pattern of amounts in the CRDs (hack/manifests.sh).
var amountPattern = regexp.MustCompile(`^[+-]?([0-9]{1,32}(\.[0-9]{0,32})?|\.[0-9]{1,32})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`)

// amountRemedy equals the message of the validation rules about amounts.
const amountRemedy = "an amount is a number with a unit such as m, Mi or Gi where it needs one, for example 500m or 4Gi, not 4GB, 4g or 2cores"

// amountFields are the names of the fields that map resources to amounts.
var amountFields = []string{
	"allocatable", "allocated", "available", "capacity", "free", "maxPerReservation", "requestedResources", "reserved", "resources",
}

// checkAmounts returns an error for every text below a field of amounts that is no amount. The
// schemas refuse it too, but with their pattern as the message: no validation rule may cost as much
// as a rule for each amount of each of 16 podShapes would. Other mistakes are left to the schemas.
func checkAmounts(path *field.Path, name string, content any) (errs field.ErrorList) {
	switch content := content.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(content)) {
			text, isText := content[key].(string)
			if isText && slices.Contains(amountFields, name) && !amountPattern.MatchString(text) {
				errs = append(errs, field.Invalid(path.Child(key), text, amountRemedy))
			}
			errs = append(errs, checkAmounts(path.Child(key), key, content[key])...)
		}
	case []any:
		for i, item := range content {
			errs = append(errs, checkAmounts(path.Index(i), fmt.Sprint(i), item)...)
		}
	}
	return errs
}

// ReadAmount adds an amount to the others if it is valid, and refuses it otherwise.
func (v *Verdict) ReadAmount(amounts quantity.Amounts, path *field.Path, name corev1.ResourceName, q resource.Quantity) {
	if err := quantity.CheckName(name); err != nil {
		v.Refuse(field.Invalid(path, string(name), err.Error()))
		return
	}
	amount, err := quantity.FromResource(name, q)
	if err != nil {
		v.Refuse(field.Invalid(path, q.String(), err.Error()))
		return
	}
	amounts[name] = amount
}
