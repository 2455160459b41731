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

// Certificates returns a check that cert-manager has issued every Certificate in the namespace.
// It is skipped if cert-manager is not installed.
func Certificates(c client.Reader, namespace string) Check {
	return Check{"certificates", func(ctx context.Context) Finding {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "CertificateList"})
		err := c.List(ctx, list, client.InNamespace(namespace))
		switch {
		case meta.IsNoMatchError(err):
			return Skip("cert-manager is not installed: renew certificates yourself")
		case err != nil:
			return readFailure(err)
		}
		var late []string
		for i := range list.Items {
			if ready, why := certificateReady(&list.Items[i]); !ready {
				late = append(late, fmt.Sprintf("%s (%s)", list.Items[i].GetName(), why))
			}
		}
		if len(late) > 0 {
			return Fail(fmt.Sprintf("kubectl --namespace %s describe certificates,certificaterequests shows why", namespace),
				"not ready: %s", strings.Join(late, ", "))
		}
		return Found("%d issued by cert-manager, all ready", len(list.Items))
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
	return false, "cert-manager has not processed it yet"
}
