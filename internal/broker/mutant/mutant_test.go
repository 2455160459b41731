package mutant

import "testing"

func TestABuildWithoutTheTagMakesNoMistake(t *testing.T) {
	if Active != "" {
		t.Errorf("this build has the mistake %q", Active)
	}
}
