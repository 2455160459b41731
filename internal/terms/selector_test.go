package terms

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

func TestSelectorsMatchAsThoseOfKubernetes(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		s := Selector{Labels: rapid.MapOfN(word, word, 0, 2).Draw(t, "labels")}
		theirs := metav1.LabelSelector{MatchLabels: s.Labels}
		for range rapid.IntRange(0, 3).Draw(t, "expressions") {
			e := Expression{Key: word.Draw(t, "key"), Operator: rapid.SampledFrom([]Operator{In, NotIn, Exists, DoesNotExist}).Draw(t, "operator")}
			if e.Operator == In || e.Operator == NotIn {
				e.Values = rapid.SliceOfN(word, 1, 3).Draw(t, "values")
			}
			s.Expressions = append(s.Expressions, e)
			theirs.MatchExpressions = append(theirs.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
			})
		}
		of := rapid.MapOfN(word, word, 0, 3).Draw(t, "of")
		selector, err := metav1.LabelSelectorAsSelector(&theirs)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Matches(of), selector.Matches(labels.Set(of)); got != want {
			t.Fatalf("%+v of %v: %t, want %t", s, of, got, want)
		}
	})
}
