package checkup

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// Conditions returns a check for each condition of an object, which prints its message.
func Conditions(about view.Subject, conditions []metav1.Condition) (checks []Check) {
	for i := range conditions {
		checks = append(checks, Known(conditions[i].Type, OfCondition(about, &conditions[i])))
	}
	return checks
}

// OfCondition turns a condition into a finding. The table of reasons says how serious its reason is, and what to do.
// A reason that is not in the table is a failure, unless the condition is True.
func OfCondition(about view.Subject, c *metav1.Condition) Finding {
	message := fmt.Sprintf("%s: %s", c.Reason, c.Message)
	for _, term := range view.Explain(c.Reason) {
		if term.Subject != about || term.Kind != view.Reason {
			continue
		}
		switch advice := view.PlainText(term.Do); term.Level {
		case view.Failure:
			return Fail(advice, "%s", message)
		case view.Warning:
			return Warn(advice, "%s", message)
		}
		return Found("%s", message)
	}
	if c.Status != metav1.ConditionTrue {
		return Fail("", "%s", message)
	}
	return Found("%s", message)
}
