package requirements

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestSelectorsMatchAsThoseOfKubernetes(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		theirs := metav1.LabelSelector{MatchLabels: rapid.MapOfN(word, word, 0, 2).Draw(t, "labels")}
		s := brokerv1alpha1.ClusterSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{}}
		for key, value := range theirs.MatchLabels {
			s.MatchLabels[key] = brokerv1alpha1.LabelValue(value)
		}
		for range rapid.IntRange(0, 3).Draw(t, "expressions") {
			e := brokerv1alpha1.LabelExpression{Key: word.Draw(t, "key"), Operator: rapid.SampledFrom([]string{In, NotIn, Exists, DoesNotExist}).Draw(t, "operator")}
			if e.Operator == In || e.Operator == NotIn {
				e.Values = rapid.SliceOfN(word, 1, 3).Draw(t, "values")
			}
			s.MatchExpressions = append(s.MatchExpressions, e)
			theirs.MatchExpressions = append(theirs.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: e.Values,
			})
		}
		of := rapid.MapOfN(word, word, 0, 3).Draw(t, "of")
		selector, err := metav1.LabelSelectorAsSelector(&theirs)
		runtest.Check(t, err)
		if got, want := Selects(&s, of), selector.Matches(labels.Set(of)); got != want {
			t.Fatalf("%+v of %v: %t, want %t", s, of, got, want)
		}
	})
}
