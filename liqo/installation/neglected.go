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
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// neglectedAfter is how old an object must be to count as neglected if Liqo's controller manager
// has not processed it. Processing normally takes less than a second.
const neglectedAfter = 30 * time.Second

// Neglected is an object that Liqo's controller manager has not processed.
type Neglected struct {
	// Object is the kind, the namespace and the name of the object.
	Object string
	// Lacks is the field that the controller manager should have written.
	Lacks string
	Since time.Time
	// OfPeer is true if a peer wrote the object. Then the peer may be the cause.
	OfPeer bool
}

// FindNeglected returns the oldest object that Liqo's controller manager in this cluster should
// have processed but has not processed, or nil. It prefers objects that no peer wrote. It ignores
// those that are older than a processed one, because then the object itself must be the cause. It
// detects a controller manager that hangs: its Deployment looks healthy until a probe of the
// kubelet fails, and some defects never make a probe fail.
func FindNeglected(ctx context.Context, reader client.Reader, now time.Time) (*Neglected, error) {
	var found []Neglected
	var processed time.Time
	note := func(kind string, obj client.Object, lacks string) {
		since, ofPeer := obj.GetCreationTimestamp().Time, object.Replicated(obj)
		switch {
		case lacks == "" && !ofPeer && since.After(processed):
			processed = since
		case lacks != "" && obj.GetDeletionTimestamp() == nil && now.Sub(since) >= neglectedAfter:
			found = append(found, Neglected{Object: fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj)), Lacks: lacks, Since: since, OfPeer: ofPeer})
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
		note("Tenant", &tenants.Items[i], tenantLacks(&tenants.Items[i]))
	}
	for i := range identities.Items {
		note("Identity", &identities.Items[i], identityLacks(&identities.Items[i]))
	}
	for i := range slices.Items {
		s := &slices.Items[i]
		if object.Replicated(s) || s.Labels[consts.ReplicationRequestedLabel] == consts.ReplicationRequestedLabelValue { // Liqo ignores others
			note("ResourceSlice", s, sliceLacks(s))
		}
	}
	var oldest *Neglected
	for i, n := range found {
		if n.Since.After(processed) && (oldest == nil || oldest.OfPeer && !n.OfPeer || oldest.OfPeer == n.OfPeer && n.Since.Before(oldest.Since)) {
			oldest = &found[i]
		}
	}
	return oldest, nil
}

func tenantLacks(t *authv1beta1.Tenant) string {
	if t.Status.AuthParams == nil && len(t.Spec.CSR) > 0 && t.Spec.TenantCondition != authv1beta1.TenantConditionDrained {
		return "status.authParams"
	}
	return ""
}

func identityLacks(i *authv1beta1.Identity) string {
	if i.Status.KubeconfigSecretRef == nil {
		return "status.kubeconfigSecretRef"
	}
	return ""
}

// sliceLacks returns the field of a slice that this cluster's Liqo should have written, "" if it
// has done its part. In the consumer's cluster this is the certificate request, in the provider's
// cluster the signed certificate.
func sliceLacks(s *authv1beta1.ResourceSlice) string {
	switch {
	case !object.Replicated(s) && len(s.Spec.CSR) == 0:
		return "spec.csr"
	case object.Replicated(s) && len(s.Spec.CSR) > 0 && s.Status.AuthParams == nil && !isDenied(s):
		return "status.authParams"
	}
	return ""
}

// isDenied reports whether Liqo has refused to authenticate the slice. Then no certificate is
// due.
func isDenied(s *authv1beta1.ResourceSlice) bool {
	c := authentication.GetCondition(s, authv1beta1.ResourceSliceConditionTypeAuthentication)
	return c != nil && c.Status == authv1beta1.ResourceSliceConditionDenied
}
