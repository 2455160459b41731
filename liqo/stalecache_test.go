package liqo

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
)

// stale is the client of an agent whose cache does not contain yet what belongs to placements.
type stale struct{ client.Client }

func (s stale) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj.(type) {
	case *authv1beta1.ResourceSlice, *offloadingv1beta1.VirtualNode, *corev1.Node:
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return s.Client.Get(ctx, key, obj, opts...)
}

func (s stale) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	switch list.(type) {
	case *authv1beta1.ResourceSliceList, *metav1.PartialObjectMetadataList:
		return nil
	}
	return s.Client.List(ctx, list, opts...)
}

// The broker lends the capacity of a placement to others once the agents report that it is gone.
func TestPlacementIsNotGoneWhileOnlyTheCacheLacksIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		w.setRelease("rome", "paris", "res-a", false)
		for _, s := range w.sites {
			s.peering.opts.Client = stale{s.peering.opts.Client}
		}
		if state := w.consumed("rome", "res-a-1"); state.Gone || strings.Contains(state.Leaving, "peering") {
			t.Errorf("the consumer ends the peering of a placement with a node: %q", state.Leaving)
		}
		state, err := w.sites["paris"].peering.Provide(t.Context(), w.provides("paris", "res-a-1"))
		w.check(err)
		if state.Gone {
			t.Error("the provider reports a placement as gone whose slice and quota exist")
		}
	})
}
