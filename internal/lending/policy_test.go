package lending

import "testing"

func TestPolicyRefuses(t *testing.T) {
	tests := map[string]struct {
		policy *Policy
		want   Reason
	}{
		"a nil policy refuses nobody":                       {nil, ""},
		"a zero policy refuses nobody":                      {&Policy{}, ""},
		"a paused policy refuses everybody":                 {&Policy{Paused: true, Allow: []string{"rome"}}, LendingPaused},
		"an unready cluster refuses everybody":              {&Policy{Unready: "LiqoMissing", Allow: []string{"rome"}}, ProviderNotReady},
		"a leaving cluster refuses everybody":               {&Policy{Paused: true, Unready: Uninstalling}, ProviderLeaving},
		"a pause is the reason of an unready cluster":       {&Policy{Paused: true, Unready: "LiqoMissing"}, LendingPaused},
		"a cluster that never peers refuses nobody":         {&Policy{Unready: NotPeering}, ""},
		"a cluster that never peers may deny a consumer":    {&Policy{Unready: NotPeering, Deny: []string{"rome"}}, ConsumerDenied},
		"a denied consumer is refused":                      {&Policy{Deny: []string{"milan", "rome"}}, ConsumerDenied},
		"a deny list refuses nobody else":                   {&Policy{Deny: []string{"milan"}}, ""},
		"a consumer missing from the allow list is refused": {&Policy{Allow: []string{"milan"}}, ConsumerDenied},
		"an allowed consumer is not refused":                {&Policy{Allow: []string{"milan", "rome"}}, ""},
		"deny wins over allow":                              {&Policy{Allow: []string{"rome"}, Deny: []string{"rome"}}, ConsumerDenied},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.policy.Refuses("rome"); got != test.want {
				t.Errorf("rome is refused for %q, want %q", got, test.want)
			}
		})
	}
}

func TestOrNilReturnsNilForPolicyWithoutRestriction(t *testing.T) {
	for name, test := range map[string]struct {
		policy Policy
		none   bool
	}{
		"empty":   {Policy{}, true},
		"paused":  {Policy{Paused: true}, false},
		"unready": {Policy{Unready: "LiqoMissing"}, false},
		"allowed": {Policy{Allow: []string{"rome"}}, false},
		"denied":  {Policy{Deny: []string{"rome"}}, false},
	} {
		if got := test.policy.OrNil(); (got == nil) != test.none {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
