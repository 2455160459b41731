package app

import (
	"strings"
	"testing"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestConditionNamesDisabledGuardAndRemedy(t *testing.T) {
	for name, test := range map[string]struct {
		policies, webhooks bool
		reason, remedy     string
	}{
		"all are on":            {true, true, agentv1alpha1.ReasonGuarded, ""},
		"the webhook is off":    {true, false, agentv1alpha1.ReasonWebhookDisabled, "set webhook.enabled=true"},
		"the policies are off":  {false, true, agentv1alpha1.ReasonGuardDisabled, "set guard.enabled=true"},
		"everything is off too": {false, false, agentv1alpha1.ReasonGuardDisabled, "set guard.enabled=true"},
	} {
		c := guardedBy(test.policies, test.webhooks)
		if c.Reason != test.reason || !strings.Contains(c.Message, test.remedy) || (c.Status == "True") != (test.remedy == "") {
			t.Errorf("%s: condition %+v", name, c)
		}
	}
}
