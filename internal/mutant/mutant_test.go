package mutant

import (
	"os"
	"strings"
	"testing"
)

func TestEveryMutantHasItsTag(t *testing.T) {
	none, err := os.ReadFile("none.go")
	if err != nil {
		t.Fatal(err)
	}
	constraint, _, _ := strings.Cut(string(none), "\n")
	for _, m := range All {
		name := strings.ReplaceAll(string(m), "-", "_")
		file, err := os.ReadFile(name + ".go")
		if err != nil {
			t.Error(err)
		}
		if want := "//go:build mutant_" + name + "\n"; !strings.HasPrefix(string(file), want) {
			t.Errorf("%s.go does not begin with %q", name, want)
		}
		if !strings.Contains(constraint+" ", "mutant_"+name+" ") && !strings.Contains(constraint, "mutant_"+name+")") {
			t.Errorf("none.go is built with the tag of %q", m)
		}
	}
	if Active != "" {
		t.Errorf("this build has the mistake %q", Active)
	}
}
