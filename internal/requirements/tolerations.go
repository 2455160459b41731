package requirements

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// MaxTaints is how many taints a node shape may have, and how many a cluster may offer.
const MaxTaints = 16

// reservedKeys matches the keys of taints with which Kubernetes, autoscalers, Liqo and this
// product keep pods off nodes. The admission policy for pods of consumers refuses tolerations of
// the same keys.
var reservedKeys = regexp.MustCompile(`^([^/]*[.])?(kubernetes[.]io|k8s[.]io|liqo[.]io|fluidos[.]eu|karpenter[.]sh)/` +
	`|^(ToBeDeletedByClusterAutoscaler|DeletionCandidateOfClusterAutoscaler|CriticalAddonsOnly)$`)

// IsReservedTaint reports whether no cluster may offer a taint with this key.
func IsReservedTaint(key string) bool { return reservedKeys.MatchString(key) }

// CheckTaints returns an error unless a cluster may offer nodes with these taints to consumers.
func CheckTaints(field string, taints []brokerv1alpha1.Taint) error {
	if err := CheckCount(field, len(taints), MaxTaints); err != nil {
		return err
	}
	for _, t := range taints {
		if err := checkTaint(field, t.Key, string(t.Value), t.Effect); err != nil {
			return err
		}
		if t.Effect == "" {
			return fmt.Errorf("%s: taint %s has no effect: name NoSchedule or NoExecute", field, t.Key)
		}
	}
	return nil
}

// checkTolerations returns an error for tolerations that no cluster grants, for example one
// without a key or with a reserved key.
func checkTolerations(tolerations []brokerv1alpha1.Toleration) error {
	if err := CheckCount("tolerations", len(tolerations), maxNamed); err != nil {
		return err
	}
	for i, t := range tolerations {
		field := fmt.Sprintf("tolerations[%d]", i)
		if err := checkTaint(field, t.Key, string(t.Value), t.Effect); err != nil {
			return err
		}
		switch corev1.TolerationOperator(t.Operator) {
		case "", corev1.TolerationOpEqual:
		case corev1.TolerationOpExists:
			if t.Value != "" {
				return fmt.Errorf("%s: value %q: operator Exists has none, leave it out or use Equal", field, message.Clip(string(t.Value), 80))
			}
		default:
			return fmt.Errorf("%s: operator %q: use Equal or Exists", field, message.Clip(t.Operator, 40))
		}
	}
	return nil
}

func checkTaint(field, key, value, effect string) error {
	if key == "" {
		return fmt.Errorf("%s: key is empty: name the key of the taint, no provider grants every one", field)
	}
	if err := CheckLabels(field, map[string]string{key: value}, 1); err != nil {
		return err
	}
	if IsReservedTaint(key) {
		return fmt.Errorf("%s: %s belongs to Kubernetes, Liqo, this product or an autoscaler, whose taints are never offered: use a key of your own", field, key)
	}
	if !slices.Contains([]string{"", string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectNoExecute)}, effect) {
		return fmt.Errorf("%s: effect %q: use NoSchedule or NoExecute", field, message.Clip(effect, 40))
	}
	return nil
}

// ParseTaint reads a taint in the syntax of kubectl taint: key=value:effect or key:effect.
func ParseTaint(text string) (brokerv1alpha1.Taint, error) {
	pair, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(pair, "=")
	t := brokerv1alpha1.Taint{Key: key, Value: brokerv1alpha1.LabelValue(value), Effect: effect}
	return t, CheckTaints(fmt.Sprintf("%.80q", text), []brokerv1alpha1.Taint{t})
}

// WithDevices adds to the tolerations of a request those of taints that are named after the devices
// among its amounts, such as nvidia.com/gpu. Device plugins let pods that request a device tolerate
// such a taint.
func WithDevices(tolerations []brokerv1alpha1.Toleration, amounts quantity.Amounts) []brokerv1alpha1.Toleration {
	out := slices.Clip(tolerations)
	for name, amount := range amounts {
		if key := string(name); amount > 0 && quantity.IsExtended(name) && !IsReservedTaint(key) {
			out = append(out, brokerv1alpha1.Toleration{Key: key, Operator: string(corev1.TolerationOpExists)})
		}
	}
	slices.SortFunc(out[len(tolerations):], func(a, b brokerv1alpha1.Toleration) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// TolerateAll reports whether pods with these tolerations may run on nodes with all of these
// taints.
func TolerateAll(tolerations []brokerv1alpha1.Toleration, taints []brokerv1alpha1.Taint) bool {
	for i := range taints {
		if !toleratesTaint(tolerations, &taints[i]) {
			return false
		}
	}
	return true
}

func toleratesTaint(tolerations []brokerv1alpha1.Toleration, taint *brokerv1alpha1.Taint) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if t.Key == taint.Key && (t.Effect == "" || t.Effect == taint.Effect) &&
			(t.Operator == string(corev1.TolerationOpExists) || t.Value == taint.Value) {
			return true
		}
	}
	return false
}

// TolerationsFor returns the tolerations that the pods of a request get at a cluster. It returns
// exactly one toleration for each taint that the cluster offers and the request tolerates. A
// toleration with the operator Exists therefore does not open nodes with other taints.
func TolerationsFor(tolerations []brokerv1alpha1.Toleration, offered []brokerv1alpha1.Taint) (out []corev1.Toleration) {
	for i := range offered {
		if o := &offered[i]; toleratesTaint(tolerations, o) {
			out = append(out, corev1.Toleration{
				Key: o.Key, Operator: corev1.TolerationOpEqual, Value: string(o.Value), Effect: corev1.TaintEffect(o.Effect),
			})
		}
	}
	return out
}
