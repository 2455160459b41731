package installation

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// neglectedAfter is how long Liqo's controller manager may take for an object. It needs less
// than a second.
const neglectedAfter = 30 * time.Second

// Neglected is an object that Liqo's controller manager has not processed.
type Neglected struct {
	// Object is its kind, namespace and name.
	Object string
	// Lacks names the field that the controller manager should have written.
	Lacks string
	Since time.Time
}

// FindNeglected returns the oldest object that Liqo's controller manager in this cluster should
// have processed and has not, nil if there is none. A controller manager that hangs leaves its
// Deployment as it was, until a probe of the kubelet fails; some hang without failing one.
func FindNeglected(ctx context.Context, reader client.Reader, now time.Time) (*Neglected, error) {
	var oldest *Neglected
	note := func(kind string, obj client.Object, lacks string) {
		since := obj.GetCreationTimestamp().Time
		if lacks == "" || obj.GetDeletionTimestamp() != nil || now.Sub(since) < neglectedAfter || oldest != nil && !since.Before(oldest.Since) {
			return
		}
		oldest = &Neglected{Object: fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj)), Lacks: lacks, Since: since}
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
		note("ResourceSlice", &slices.Items[i], sliceLacks(&slices.Items[i]))
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

// sliceLacks names what this cluster's Liqo has to write: the consumer's the signing request, the
// provider's the signed certificate.
func sliceLacks(s *authv1beta1.ResourceSlice) string {
	switch {
	case !object.Replicated(s) && len(s.Spec.CSR) == 0:
		return "spec.csr"
	case object.Replicated(s) && len(s.Spec.CSR) > 0 && s.Status.AuthParams == nil && !isDenied(s):
		return "status.authParams"
	}
	return ""
}

// isDenied reports whether Liqo has refused to authenticate the slice, which is an answer.
func isDenied(s *authv1beta1.ResourceSlice) bool {
	c := authentication.GetCondition(s, authv1beta1.ResourceSliceConditionTypeAuthentication)
	return c != nil && c.Status == authv1beta1.ResourceSliceConditionDenied
}
