package checkup

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Certificates looks whether cert-manager has issued what it was asked for in a
// namespace.
func Certificates(c client.Reader, namespace string) Check {
	return Check{"certificates", func(ctx context.Context) Finding {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateList"})
		err := c.List(ctx, list, client.InNamespace(namespace))
		switch {
		case meta.IsNoMatchError(err):
			return Skip("cert-manager is not installed: certificates are yours to renew")
		case err != nil:
			return unreadable(err)
		}
		var late []string
		for i := range list.Items {
			if ready, why := certificateReady(&list.Items[i]); !ready {
				late = append(late, fmt.Sprintf("%s (%s)", list.Items[i].GetName(), why))
			}
		}
		if len(late) > 0 {
			return Fail(fmt.Sprintf("kubectl --namespace %s describe certificates,certificaterequests tells why", namespace),
				"not ready: %s", strings.Join(late, ", "))
		}
		return Found("%d of cert-manager, all ready", len(list.Items))
	}}
}

func certificateReady(certificate *unstructured.Unstructured) (ready bool, why string) {
	conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	if err != nil {
		return false, err.Error()
	}
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if !ok || condition["type"] != "Ready" {
			continue
		}
		return condition["status"] == "True", fmt.Sprint(condition["message"])
	}
	return false, "cert-manager has not looked at it"
}
