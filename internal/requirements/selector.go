package requirements

import (
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Operators of a LabelExpression, with the same meaning as in Kubernetes. NotIn is also
// true for a missing label.
const (
	In           = "In"
	NotIn        = "NotIn"
	Exists       = "Exists"
	DoesNotExist = "DoesNotExist"
)

// Selects reports whether labels meet all requirements of a selector, with the rules of a
// Kubernetes label selector. A nil selector selects everything.
func Selects(s *brokerv1alpha1.ClusterSelector, labels map[string]string) bool {
	if s == nil {
		return true
	}
	for i := range s.MatchExpressions {
		if !meetsExpression(&s.MatchExpressions[i], labels) {
			return false
		}
	}
	return HasAll(labels, s.MatchLabels)
}

func meetsExpression(e *brokerv1alpha1.LabelExpression, labels map[string]string) bool {
	value, has := labels[e.Key]
	switch e.Operator {
	case In:
		return has && slices.Contains(e.Values, value)
	case NotIn:
		return !has || !slices.Contains(e.Values, value)
	case Exists:
		return has
	default:
		return !has
	}
}

// HasAll reports whether labels contain every label in wanted, with the same value.
func HasAll[Value ~string](labels map[string]string, wanted map[string]Value) bool {
	for key, value := range wanted {
		if have, ok := labels[key]; !ok || have != string(value) {
			return false
		}
	}
	return true
}
