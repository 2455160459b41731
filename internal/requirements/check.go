package requirements

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// MaxWord is the maximum length of a label's value, and of other values with the same syntax.
const MaxWord = 63

// CheckCount returns an error if a field has more values than the limit most. The parameter given is the number of
// values.
func CheckCount(field string, given, most int) error {
	if given > most {
		return fmt.Errorf("%s: %d are given, at most %d are accepted", field, given, most)
	}
	return nil
}

// CheckLabels returns an error if the number of labels in a field is above the limit most, or if
// Kubernetes would refuse one of them.
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

// CheckClaims returns an error if the number of claims in a field is above the limit most, if the name
// of a claim is not a valid label key, or if a value is too long or not printable ASCII.
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

// CheckWords returns an error if a field has more words than the limit most, or a word that is empty or not
// a valid label value.
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
