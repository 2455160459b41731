package requirements

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// MaxWord bounds the value of a label, and every other word with the same syntax.
const MaxWord = 63

// CheckCount returns an error if there are more than most values.
func CheckCount(field string, given, most int) error {
	if given > most {
		return fmt.Errorf("%s: %d are given, at most %d are accepted", field, given, most)
	}
	return nil
}

// CheckLabels returns an error for more than most labels, or for labels that Kubernetes would
// refuse.
func CheckLabels[Value ~string](field string, labels map[string]Value, most int) error {
	if err := CheckCount(field, len(labels), most); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Errorf("%s: %q is not a label key: %s", field, message.Clip(key, 80), problems[0])
		}
		if problems := validation.IsValidLabelValue(string(labels[key])); len(problems) > 0 {
			return fmt.Errorf("%s: %q is not a value of label %s: %s", field, message.Clip(string(labels[key]), 80), key, problems[0])
		}
	}
	return nil
}

// CheckClaims returns an error for more than most claims, for a name that is not a label key, and
// for a value that is too long or not printable ASCII.
func CheckClaims[Value ~string](field string, claims map[string]Value, most int) error {
	if err := CheckCount(field, len(claims), most); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		if problems := validation.IsQualifiedName(name); len(problems) > 0 {
			return fmt.Errorf("%s: %q is not a claim name: %s", field, message.Clip(name, 80), problems[0])
		}
		if value := string(claims[name]); len(value) > MaxWord || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return fmt.Errorf("%s: %q is not a value of claim %s: write at most %d printable ASCII characters", field, message.Clip(value, 80), name, MaxWord)
		}
	}
	return nil
}

// CheckWords returns an error for more than most words, and for words that are empty or not valid
// as a label value.
func CheckWords(field string, most int, words ...string) error {
	if err := CheckCount(field, len(words), most); err != nil {
		return err
	}
	for _, w := range words {
		if problems := validation.IsValidLabelValue(w); w == "" || len(problems) > 0 {
			return fmt.Errorf("%s: %q must be 1 to %d letters, digits, '-', '_' and '.', beginning and ending with a letter or digit", field, message.Clip(w, 80), MaxWord)
		}
	}
	return nil
}
