package agent

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// NamespaceMapPath is the path of the webhook for NamespaceMaps that Liqo replicates between
// clusters.
const NamespaceMapPath = "/mutate-offloading-liqo-io-v1beta1-namespacemap"

// SetupNamespaceMaps registers the webhook that applies guard.Disown to the NamespaceMaps that
// peers replicate to this cluster.
func SetupNamespaceMaps(mgr ctrl.Manager) {
	mgr.GetWebhookServer().Register(NamespaceMapPath, &admission.Webhook{Handler: admission.HandlerFunc(mendNamespaceMap)})
}

// mendNamespaceMap removes the label of the remote cluster from a NamespaceMap that the control
// plane of a peer writes (see guard.Disown). Objects of other writers stay unchanged.
func mendNamespaceMap(_ context.Context, req admission.Request) admission.Response {
	if !slices.Contains(req.UserInfo.Groups, object.ControlPlaneGroup) {
		return admission.Allowed("")
	}
	return patchObject(req, func(m *unstructured.Unstructured) (bool, []string, error) { return guard.Disown(m), nil, nil })
}
