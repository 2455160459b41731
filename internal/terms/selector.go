package terms

import "slices"

// Selector matches labels like a Kubernetes label selector. The zero Selector matches everything.
type Selector struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Expressions []Expression      `json:"expressions,omitempty"`
}

// Expression is one requirement of a Selector.
type Expression struct {
	Key      string   `json:"key"`
	Operator Operator `json:"operator"`
	// Values are the operands of In and NotIn.
	Values []string `json:"values,omitempty"`
}

// Operator compares a label with values.
type Operator string

// Operators of an Expression. As in Kubernetes, NotIn also matches a missing label.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// Matches reports whether the labels meet all requirements.
func (s *Selector) Matches(labels map[string]string) bool {
	if s == nil {
		return true
	}
	for _, e := range s.Expressions {
		if !e.Matches(labels) {
			return false
		}
	}
	return HasAll(labels, s.Labels)
}

// Matches reports whether the labels meet the requirement.
func (e *Expression) Matches(labels map[string]string) bool {
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

// HasAll reports whether labels contain every wanted label with its value.
func HasAll(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}
