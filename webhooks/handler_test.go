package webhooks

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// judged returns a handler of ConfigMaps with a fixed verdict.
func judged(v Verdict, err error) *handler[*corev1.ConfigMap] {
	return &handler[*corev1.ConfigMap]{scheme: scheme.Scheme, Kind: Kind[*corev1.ConfigMap]{
		Spec:  func(c *corev1.ConfigMap) any { return c.Data },
		Judge: func(context.Context, *corev1.ConfigMap) (Verdict, error) { return v, err },
	}}
}

func object(value string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: map[string]string{"key": value}}
	for _, f := range change {
		f(c)
	}
	return c
}

func TestHandlerNeverBlocksDeletionsAndStatuses(t *testing.T) {
	var no Verdict
	no.Refuse(field.Invalid(field.NewPath("spec"), "", "no"))
	h := judged(no, errors.New("unavailable"))
	deleted := func(c *corev1.ConfigMap) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	cases := map[string]struct {
		old, now *corev1.ConfigMap
		refused  bool
	}{
		"a finalizer that is added":             {object("a"), object("a", func(c *corev1.ConfigMap) { c.Finalizers = []string{"x/y"} }), false},
		"a label that is added":                 {object("a"), object("a", func(c *corev1.ConfigMap) { c.Labels = map[string]string{"a": "b"} }), false},
		"the removal of a finalizer":            {object("a", deleted), object("a", deleted), false},
		"any change of an object being deleted": {object("a", deleted), object("b", deleted), false},
		"another spec":                          {object("a"), object("b"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := h.ValidateUpdate(t.Context(), tc.old, tc.now); (err != nil) != tc.refused {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("a deletion", func(t *testing.T) {
		if _, err := h.ValidateDelete(t.Context(), object("a")); err != nil {
			t.Error(err)
		}
	})
}

func TestVerdicts(t *testing.T) {
	var warned, refused Verdict
	warned.Warn("mind %s", "this")
	refused.Refuse(field.Invalid(field.NewPath("spec", "cpu"), "9", "ask for less"))
	refused.Warn("mind that")

	t.Run("a warning admits", func(t *testing.T) {
		warnings, err := judged(warned, nil).ValidateCreate(t.Context(), object("a"))
		if diff := cmp.Diff(admission.Warnings{"mind this"}, warnings); diff != "" || err != nil {
			t.Errorf("%v, (-want +got):\n%s", err, diff)
		}
	})
	t.Run("an error names kind, object, field and advice", func(t *testing.T) {
		warnings, err := judged(refused, nil).ValidateCreate(t.Context(), object("a"))
		if !apierrors.IsInvalid(err) || err.Error() != `ConfigMap "mine" is invalid: spec.cpu: Invalid value: "9": ask for less` {
			t.Errorf("got %v", err)
		}
		if len(warnings) != 1 {
			t.Errorf("warnings %q", warnings)
		}
	})
	t.Run("without a verdict nothing is admitted", func(t *testing.T) {
		_, err := judged(warned, errors.New("unavailable")).ValidateCreate(t.Context(), object("a"))
		if err == nil || !strings.Contains(err.Error(), "unavailable") {
			t.Errorf("got %v", err)
		}
	})
}
