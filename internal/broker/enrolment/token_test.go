package enrolment

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestConfigMapOmitsTokenSecret(t *testing.T) {
	token, text := NewToken("rome", noon)
	id, secret, _ := strings.Cut(text, ".")
	kept := token.toConfigMap("broker")
	for _, s := range []string{secret, text} {
		if strings.Contains(kept.String(), s) {
			t.Errorf("the secret is in %s", kept)
		}
	}
	read, err := tokenOf(kept)
	runtest.Check(t, err)
	if diff := cmp.Diff(&token, read); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
	if got, ok := tokenID(text); !ok || got != id || !read.matchesText(text) {
		t.Errorf("token %q: ID %q, %v, fits %v", text, got, ok, read.matchesText(text))
	}
}

func TestTokensDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token, text := NewToken("rome", noon)
		if seen[token.ID] || seen[text] {
			t.Fatalf("token %q came twice", text)
		}
		seen[token.ID], seen[text] = true, true
	}
}

func TestTokenOfRefusesEditedConfigMap(t *testing.T) {
	for key, value := range map[string]string{expiresKey: "never", digestKey: "", clusterKey: ""} {
		token, _ := NewToken("rome", noon)
		kept := token.toConfigMap("broker")
		kept.Data[key] = value
		if got, err := tokenOf(kept); err == nil || !strings.Contains(err.Error(), kept.Name) {
			t.Errorf("%s=%q: %+v, %v", key, value, got, err)
		}
	}
}

// FuzzTokenID checks that every accepted text has the form of a token, and that its ID is valid in
// an object's name.
func FuzzTokenID(f *testing.F) {
	_, good := NewToken("rome", noon)
	f.Add(good)
	f.Add(strings.ToUpper(good))
	f.Add(good + "\n")
	f.Add("../" + good)
	f.Add(strings.ReplaceAll(good, ".", ""))
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := tokenID(text)
		if !ok {
			return
		}
		if len(text) != idLength+1+secretLength || len(id) != idLength || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567.") != "" {
			t.Errorf("%q was taken for a token with ID %q", text, id)
		}
	})
}
