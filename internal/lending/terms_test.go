package lending

import "testing"

func TestTermsRefuse(t *testing.T) {
	tests := map[string]struct {
		terms *Terms
		want  Reason
	}{
		"nil terms refuse nobody":                           {nil, ""},
		"zero terms refuse nobody":                          {&Terms{}, ""},
		"paused terms refuse everybody":                     {&Terms{Paused: true, Allow: []string{"rome"}}, LendingPaused},
		"an unready cluster refuses everybody":              {&Terms{Unready: "LiqoMissing", Allow: []string{"rome"}}, ProviderNotReady},
		"a pause is the reason of an unready cluster":       {&Terms{Paused: true, Unready: "LiqoMissing"}, LendingPaused},
		"a denied consumer is refused":                      {&Terms{Deny: []string{"milan", "rome"}}, ConsumerDenied},
		"a deny list refuses nobody else":                   {&Terms{Deny: []string{"milan"}}, ""},
		"a consumer missing from the allow list is refused": {&Terms{Allow: []string{"milan"}}, ConsumerDenied},
		"an allowed consumer is not refused":                {&Terms{Allow: []string{"milan", "rome"}}, ""},
		"deny wins over allow":                              {&Terms{Allow: []string{"rome"}, Deny: []string{"rome"}}, ConsumerDenied},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.terms.Refuses("rome"); got != test.want {
				t.Errorf("rome is refused for %q, want %q", got, test.want)
			}
		})
	}
}

func TestOrNilReturnsNilForTermsThatRefuseNobody(t *testing.T) {
	for name, test := range map[string]struct {
		terms Terms
		none  bool
	}{
		"empty":   {Terms{}, true},
		"paused":  {Terms{Paused: true}, false},
		"unready": {Terms{Unready: "LiqoMissing"}, false},
		"allowed": {Terms{Allow: []string{"rome"}}, false},
		"denied":  {Terms{Deny: []string{"rome"}}, false},
	} {
		if got := test.terms.OrNil(); (got == nil) != test.none {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
