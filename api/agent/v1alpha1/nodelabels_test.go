package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestEveryNameOfARequestFitsALabel(t *testing.T) {
	longest := strings.Repeat("a", 253)
	seen := map[string]string{}
	for _, name := range []string{
		"a", "my-request", "v1.2", strings.Repeat("a", 63), strings.Repeat("a", 64), longest, longest[:252] + "b",
		strings.Repeat("a", 53) + "." + strings.Repeat("b", 20), strings.Repeat("a.", 60) + "a",
	} {
		labels := agentv1alpha1.RequestNodeLabels("team", name)
		value := labels[agentv1alpha1.RequestLabel]
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("%q becomes %q: %v", name, value, problems)
		}
		if len(name) <= 63 && value != name {
			t.Errorf("%q becomes %q although it fits", name, value)
		}
		if other, taken := seen[value]; taken {
			t.Errorf("%q and %q have the same label %q", name, other, value)
		}
		seen[value] = name
		if got := labels[agentv1alpha1.RequestNamespaceLabel]; got != "team" {
			t.Errorf("%q: namespace %q", name, got)
		}
	}
}
