package agent

import (
	"context"
	"encoding/json"
	"net/http"
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
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(req.Object.Raw); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if !guard.Disown(obj) {
		return admission.Allowed("")
	}
	mended, err := json.Marshal(obj)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, mended)
}
