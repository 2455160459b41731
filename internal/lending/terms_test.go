package lending

import "testing"

func TestTermsRefuse(t *testing.T) {
	tests := map[string]struct {
		terms *Terms
		want  Reason
	}{
		"nobody where nothing is said":             {nil, ""},
		"nobody where there is nothing in them":    {&Terms{}, ""},
		"everybody while lending is paused":        {&Terms{Paused: true, Allow: []string{"rome"}}, LendingPaused},
		"who is denied":                            {&Terms{Deny: []string{"milan", "rome"}}, ConsumerDenied},
		"nobody else then":                         {&Terms{Deny: []string{"milan"}}, ""},
		"who is not among those that are allowed":  {&Terms{Allow: []string{"milan"}}, ConsumerDenied},
		"not who is allowed":                       {&Terms{Allow: []string{"milan", "rome"}}, ""},
		"who is allowed and denied: denied counts": {&Terms{Allow: []string{"rome"}, Deny: []string{"rome"}}, ConsumerDenied},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.terms.Refuses("rome"); got != test.want {
				t.Errorf("rome is refused for %q, want %q", got, test.want)
			}
		})
	}
}

func TestTermsThatRefuseNobodyAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		terms Terms
		none  bool
	}{
		"empty":   {Terms{}, true},
		"paused":  {Terms{Paused: true}, false},
		"allowed": {Terms{Allow: []string{"rome"}}, false},
		"denied":  {Terms{Deny: []string{"rome"}}, false},
	} {
		if got := test.terms.OrNil(); (got == nil) != test.none {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
