package patch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const finalizer = "example.com/finalizer"

// stored returns a client with one object, and a copy of it.
func stored(t *testing.T, finalizers ...string) (client.Client, *corev1.ConfigMap) {
	t.Helper()
	c := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "a", UID: "1", Finalizers: finalizers,
	}}).Build()
	return c, read(t, c)
}

func read(t *testing.T, c client.Client) *corev1.ConfigMap {
	t.Helper()
	obj := &corev1.ConfigMap{}
	runtest.Check(t, c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, obj))
	return obj
}

func TestWritesLoseToThoseOfOthers(t *testing.T) {
	for name, write := range map[string]func(context.Context, client.Client, *corev1.ConfigMap) error{
		"a change": func(ctx context.Context, c client.Client, obj *corev1.ConfigMap) error {
			before := obj.DeepCopy()
			obj.Data = map[string]string{"mine": "1"}
			return c.Patch(ctx, obj, IfUnchanged(before))
		},
		"a finalizer that is added": func(ctx context.Context, c client.Client, obj *corev1.ConfigMap) error {
			_, err := AddFinalizer(ctx, c, obj, finalizer)
			return err
		},
		"a finalizer that is removed": func(ctx context.Context, c client.Client, obj *corev1.ConfigMap) error {
			return RemoveFinalizer(ctx, c, obj, "example.com/other")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, obj := stored(t, "example.com/other")
			theirs := obj.DeepCopy()
			theirs.Data = map[string]string{"theirs": "1"}
			runtest.Check(t, c.Update(t.Context(), theirs))
			if err := write(t.Context(), c, obj); !apierrors.IsConflict(err) {
				t.Errorf("got %v, want a conflict", err)
			}
		})
	}
}

func TestFinalizersAreAddedOnceAndRemovedFromWhatIsThere(t *testing.T) {
	c, obj := stored(t)
	for _, want := range []bool{true, false} {
		if added, err := AddFinalizer(t.Context(), c, obj, finalizer); added != want || err != nil {
			t.Fatalf("added %t, %v; want %t", added, err, want)
		}
	}
	if diff := cmp.Diff([]string{finalizer}, read(t, c).Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	for range 2 {
		runtest.Check(t, RemoveFinalizer(t.Context(), c, obj, finalizer))
	}
	if got := read(t, c).Finalizers; len(got) > 0 {
		t.Errorf("finalizers %v are left", got)
	}
	gone := obj.DeepCopy()
	gone.Name, gone.Finalizers = "gone", []string{finalizer}
	if err := RemoveFinalizer(t.Context(), c, gone, finalizer); err != nil {
		t.Errorf("an object that is gone: %v", err)
	}
}

func TestDeleteLeavesTheFinalizersOfOthers(t *testing.T) {
	c, obj := stored(t, finalizer, "example.com/other")
	for range 2 { // in the second round the object is terminating
		runtest.Check(t, Delete(t.Context(), c, obj, finalizer))
		obj = read(t, c)
		if diff := cmp.Diff([]string{"example.com/other"}, obj.Finalizers); diff != "" || obj.DeletionTimestamp == nil {
			t.Fatalf("deleted at %v, finalizers (-want +got):\n%s", obj.DeletionTimestamp, diff)
		}
	}
	last, obj := stored(t, finalizer)
	runtest.Check(t, Delete(t.Context(), last, obj, finalizer))
	if err := last.Get(t.Context(), client.ObjectKeyFromObject(obj), &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want the object gone", err)
	}
	if err := Delete(t.Context(), last, obj, finalizer); err != nil {
		t.Errorf("an object that is gone: %v", err)
	}
}

func TestOnlyConflictsAreRetriedSilently(t *testing.T) {
	away := errors.New("away")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "a", errors.New("written"))
	for name, test := range map[string]struct {
		again time.Duration
		err   error
		want  ctrl.Result
	}{
		"nothing is due": {},
		"a later look":   {again: time.Minute, want: ctrl.Result{RequeueAfter: time.Minute}},
		"an error":       {err: away},
		"a conflict":     {again: time.Minute, err: conflict, want: ctrl.Result{RequeueAfter: afterConflict}},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := Requeue(test.again, test.err)
			if result != test.want || (test.err == away) != (err != nil) {
				t.Errorf("got %+v and %v", result, err)
			}
		})
	}
}
