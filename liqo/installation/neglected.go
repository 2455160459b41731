package installation

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// neglectedAfter is how old an object must be to count as neglected if Liqo's controller manager
// has not processed it. Processing normally takes less than a second.
const neglectedAfter = 30 * time.Second

// Neglected is an object that Liqo's controller manager has not processed.
type Neglected struct {
	// Object is the kind, the namespace and the name of the object.
	Object string
	Since  time.Time
}

// findNeglected returns the oldest object that Liqo's controller manager in this cluster should
// have processed but has not processed, or nil. It ignores those that a peer wrote, who may be the
// cause, and those that are older than a processed one, because then the object itself must be the
// cause. It detects a controller manager that hangs: its Deployment looks healthy until a probe of
// the kubelet fails, and some defects never make a probe fail.
func findNeglected(ctx context.Context, reader client.Reader, now time.Time) (*Neglected, error) {
	var found []Neglected
	var processed time.Time
	note := func(kind string, obj client.Object, done bool) {
		since := obj.GetCreationTimestamp().Time
		switch {
		case object.Replicated(obj):
		case done && since.After(processed):
			processed = since
		case !done && obj.GetDeletionTimestamp() == nil && now.Sub(since) >= neglectedAfter:
			found = append(found, Neglected{Object: fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj)), Since: since})
		}
	}
	var tenants authv1beta1.TenantList
	var identities authv1beta1.IdentityList
	var slices authv1beta1.ResourceSliceList
	for _, list := range []client.ObjectList{&tenants, &identities, &slices} {
		if err := reader.List(ctx, list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("listing Liqo's objects: %w", err)
		}
	}
	for i := range tenants.Items {
		note("Tenant", &tenants.Items[i], hasCertificate(&tenants.Items[i]))
	}
	for i := range identities.Items {
		note("Identity", &identities.Items[i], identities.Items[i].Status.KubeconfigSecretRef != nil)
	}
	for i := range slices.Items {
		s := &slices.Items[i]
		if s.Labels[consts.ReplicationRequestedLabel] == consts.ReplicationRequestedLabelValue { // Liqo ignores others
			note("ResourceSlice", s, len(s.Spec.CSR) > 0)
		}
	}
	var oldest *Neglected
	for i, n := range found {
		if n.Since.After(processed) && (oldest == nil || n.Since.Before(oldest.Since)) {
			oldest = &found[i]
		}
	}
	return oldest, nil
}

func hasCertificate(t *authv1beta1.Tenant) bool {
	return t.Status.AuthParams != nil || len(t.Spec.CSR) == 0 || t.Spec.TenantCondition == authv1beta1.TenantConditionDrained
}
