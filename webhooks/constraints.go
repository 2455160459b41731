package webhooks

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// CheckRequirements refuses requirements that the broker cannot parse, pods that need more than the
// requested amounts or whose memory lacks a unit, a cluster that is both included and excluded, and
// includeClusters with the requester as the only entry. It warns about other entries that name the
// requester.
func (v *Verdict) CheckRequirements(spec *field.Path, requester string, amounts quantity.Amounts, asked *brokerv1alpha1.Requirements) {
	read, err := requirements.Read(asked)
	if err == nil {
		err = requirements.CheckPods(amounts, read.PodShapes)
	}
	if err != nil {
		name, advice, _ := strings.Cut(err.Error(), ": ")
		v.Refuse(field.Invalid(spec.Child(name), field.OmitValueType{}, advice))
		return
	}
	for i := range asked.PodShapes {
		if q := asked.PodShapes[i].Resources[corev1.ResourceMemory]; LacksUnit(corev1.ResourceMemory, q) {
			v.Refuse(field.Invalid(spec.Child("podShapes").Index(i).Child("resources").Key(string(corev1.ResourceMemory)), q.String(),
				"must be at least 1Mi: without a unit it is a number of bytes, for example 256Mi"))
		}
	}
	if asked.Constraints != nil {
		v.checkClusterLists(spec.Child("constraints"), requester, asked.Constraints)
	}
}

// leastMemory is the smallest plausible amount of memory, in bytes.
const leastMemory = 1 << 20

// LacksUnit reports whether an amount of memory is so small that its author probably forgot the unit.
func LacksUnit(name corev1.ResourceName, q resource.Quantity) bool {
	return name == corev1.ResourceMemory && q.Sign() > 0 && q.CmpInt64(leastMemory) < 0
}

func (v *Verdict) checkClusterLists(path *field.Path, requester string, k *brokerv1alpha1.Constraints) {
	for i, id := range k.IncludeClusters {
		at := path.Child("includeClusters").Index(i)
		switch {
		case slices.Contains(k.ExcludeClusters, id):
			v.Refuse(field.Invalid(at, id, "is in excludeClusters too: take it out of one of the lists"))
		case id == requester && len(k.IncludeClusters) == 1:
			v.Refuse(field.Invalid(at, id, "is the requester itself, which cannot be its own provider: name other clusters"))
		case id == requester:
			v.Warn("%s: %q is the requester itself, which cannot be its own provider: leave it out", at, id)
		}
	}
	for i, id := range k.ExcludeClusters {
		if id == requester {
			v.Warn("%s: %q is the requester itself, which is never its own provider: leave it out", path.Child("excludeClusters").Index(i), id)
		}
	}
}

// WarnOfIdle warns of an idle time that has no effect, because the duration ends first. The duration may be nil.
func (v *Verdict) WarnOfIdle(spec *field.Path, idle *brokerv1alpha1.Idle, duration *metav1.Duration) {
	if idle != nil && duration != nil && idle.After.Duration >= duration.Duration {
		v.Warn("%s: %s is not shorter than the duration %s, so it has no effect: shorten it, or leave idle out",
			spec.Child("idle", "after"), idle.After.Duration, duration.Duration)
	}
}

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
