package message

import (
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClipKeepsTextWithinItsLimitAndItsRunesWhole(t *testing.T) {
	for name, text := range map[string]string{
		"short":                     "all is well",
		"as long as the limit":      strings.Repeat("a", 20),
		"longer":                    strings.Repeat("a", 21),
		"runes of two bytes":        strings.Repeat("é", 20),
		"runes of four bytes":       strings.Repeat("🛰", 20),
		"a rune across the cut":     "aaaaaaaaaaaaaaaa" + strings.Repeat("世", 5),
		"a rune across the cut, +1": "aaaaaaaaaaaaaaa" + strings.Repeat("世", 5),
	} {
		t.Run(name, func(t *testing.T) {
			got := Clip(text, 20)
			switch {
			case len(text) <= 20 && got != text:
				t.Errorf("got %q, want the text as it is", got)
			case len(got) > 20 || !utf8.ValidString(got):
				t.Errorf("got %q of %d bytes, want whole runes in 20", got, len(got))
			case len(text) > 20 && (!strings.HasSuffix(got, "…") || !strings.HasPrefix(text, strings.TrimSuffix(got, "…"))):
				t.Errorf("got %q, want the beginning of the text and a mark", got)
			}
		})
	}
}

func TestConditionsAreAnnouncedWhenStatusOrReasonChanges(t *testing.T) {
	before := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Fine", Message: "a"}
	for name, test := range map[string]struct {
		change  func(*metav1.Condition)
		changed bool
	}{
		"nothing":     {change: func(*metav1.Condition) {}},
		"the message": {change: func(c *metav1.Condition) { c.Message = "b" }},
		"the status":  {change: func(c *metav1.Condition) { c.Status = metav1.ConditionFalse }, changed: true},
		"the reason":  {change: func(c *metav1.Condition) { c.Reason = "Other" }, changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			now := before
			test.change(&now)
			if got := ChangedCondition([]metav1.Condition{now}, []metav1.Condition{before}, "Ready"); (got != nil) != test.changed {
				t.Errorf("got %+v, want a change: %t", got, test.changed)
			}
		})
	}
	if ChangedCondition([]metav1.Condition{before}, nil, "Ready") == nil {
		t.Error("a new condition is no change")
	}
	if ChangedCondition(nil, []metav1.Condition{before}, "Ready") != nil {
		t.Error("a condition that is not there is a change")
	}
}
