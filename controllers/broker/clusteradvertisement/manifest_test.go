package clusteradvertisement

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// A manifest in Git cannot be applied again without conflicts once the broker has written the fields that it sets.
func TestOnlyTheBrokersFieldsOfManifestsAreWritten(t *testing.T) {
	w := newWorld(t)
	inGit := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: metav1.ObjectMeta{Namespace: "broker", Name: "in-git"}}
	inGit.Spec.ClusterID, inGit.Spec.Resources.Capacity = "in-git", resources("16", "32Gi")
	w.check(w.Create(w.Context(), inGit))
	var written []string
	w.reconciler.client = interceptor.NewClient(w.reconciler.client.(client.WithWatch), interceptor.Funcs{
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return errors.New("an update writes every field")
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			data, err := patch.Data(obj)
			written = append(written, string(data))
			return errors.Join(err, c.Patch(ctx, obj, patch, opts...))
		},
	})
	w.reconcile(client.ObjectKeyFromObject(inGit))
	if len(written) != 1 || !strings.Contains(written[0], `"available"`) || strings.Contains(written[0], `"capacity"`) {
		t.Errorf("patches %q, want one with available, but without capacity", written)
	}
}
