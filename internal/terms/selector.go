package terms

import "slices"

// Selector matches labels as Kubernetes' label selectors do. The zero Selector
// matches everything.
type Selector struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Expressions []Expression      `json:"expressions,omitempty"`
}

// Expression is one requirement of a Selector.
type Expression struct {
	Key      string   `json:"key"`
	Operator Operator `json:"operator"`
	// Values of In and NotIn.
	Values []string `json:"values,omitempty"`
}

// Operator relates a label to values.
type Operator string

// Operators of an Expression. NotIn is met where the label is missing too.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
)

// Matches reports whether labels meet all requirements.
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

// Matches reports whether labels meet the requirement.
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

// HasAll reports whether labels hold every wanted one.
func HasAll(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}
