package app

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
)

// TestCheckLooksForEveryPolicy compares the policies that agent check looks for with those in the chart, and with the
// bindings of the same names.
func TestCheckLooksForEveryPolicy(t *testing.T) {
	const optional = "NAME-pod-security"
	o := &checkOptions{options: defaultOptions(), name: "NAME"}
	want := slices.Sorted(slices.Values(append(o.policyNames(), optional)))
	for _, kind := range []string{"policy", "binding"} {
		var got []string
		files, err := fs.Glob(charts.Agent(), "templates/guard/*-"+kind+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := fs.ReadFile(charts.Agent(), file)
			if err != nil {
				t.Fatal(err)
			}
			name := regexp.MustCompile(`(?m)^  name: \{\{ include "[^"]*fullname" \. \}\}(.*)$`).FindSubmatch(text)
			got = append(got, "NAME"+string(name[1]))
		}
		got = slices.DeleteFunc(got, func(name string) bool { return strings.HasSuffix(name, "-elsewhere") })
		if slices.Sort(got); !slices.Equal(want, got) {
			t.Errorf("%s (-looked for +in the chart):\n%s", kind, cmp.Diff(want, got))
		}
	}
}

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
