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

// NamespaceMapPath is where the webhook that mends replicated NamespaceMaps is served.
const NamespaceMapPath = "/mutate-offloading-liqo-io-v1beta1-namespacemap"

// SetupNamespaceMaps serves the webhook that keeps what a peer replicates here from being
// taken for this cluster's own. It reads nothing: what it is sent is enough.
func SetupNamespaceMaps(mgr ctrl.Manager) {
	mgr.GetWebhookServer().Register(NamespaceMapPath, &admission.Webhook{Handler: admission.HandlerFunc(mendNamespaceMap)})
}

// mendNamespaceMap takes the label by which virtual kubelets of this cluster find their
// NamespaceMap off one that a peer's control plane writes. Other writers are left alone.
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
