package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Paths of the webhooks that decide which certificates this cluster signs for peers.
const (
	SlicePath      = "/validate-authentication-liqo-io-v1beta1-resourceslice"
	SigningPath    = "/validate-certificates-k8s-io-v1-certificatesigningrequest"
	LifetimePath   = "/mutate-certificates-k8s-io-v1-certificatesigningrequest"
	csrLabel       = object.RemoteTenantCSRLabel
	reasonNotReady = "the certificate request could not be checked, try again"
)

// signing handles certificate requests that Liqo makes for peers, which need certificates to act in
// this cluster.
type signing struct {
	slice    func(ctx context.Context, consumer string, slice *object.ResourceSlice) error
	request  func(ctx context.Context, csr []byte) error
	lifetime time.Duration
}

// SetupSigning registers the webhooks that limit the certificates of a peer to its own identities
// and to the given lifetime.
func SetupSigning(mgr ctrl.Manager, peering *liqo.Peering, lifetime time.Duration) {
	s := &signing{slice: peering.CheckSliceSigning, request: peering.CheckSigning, lifetime: lifetime}
	for path, handle := range map[string]admission.HandlerFunc{
		SlicePath: s.checkSlice, SigningPath: s.checkRequest, LifetimePath: s.shortenLifetime,
	} {
		mgr.GetWebhookServer().Register(path, &admission.Webhook{Handler: handle})
	}
}

// checkSlice refuses a peer's ResourceSlice if the certificate request in it is not for the
// identity of this slice. It admits updates that do not change the certificate request.
func (s *signing) checkSlice(ctx context.Context, req admission.Request) admission.Response {
	if !slices.Contains(req.UserInfo.Groups, object.ControlPlaneGroup) {
		return admission.Allowed("")
	}
	var slice, before object.ResourceSlice
	if err := json.Unmarshal(req.Object.Raw, &slice); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if req.Operation == admissionv1.Update {
		if err := json.Unmarshal(req.OldObject.Raw, &before); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		if slice.DeletionTimestamp != nil || slices.Equal(before.Spec.CSR, slice.Spec.CSR) {
			return admission.Allowed("")
		}
	}
	slice.Name = req.Name
	return toResponse(s.slice(ctx, req.UserInfo.Username, &slice))
}

// checkRequest refuses a CertificateSigningRequest of Liqo unless it is for exactly one identity of
// a peer.
func (s *signing) checkRequest(ctx context.Context, req admission.Request) admission.Response {
	var csr certificatesv1.CertificateSigningRequest
	if err := json.Unmarshal(req.Object.Raw, &csr); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if _, ofLiqo := csr.Labels[csrLabel]; !ofLiqo {
		return admission.Allowed("")
	}
	return toResponse(s.request(ctx, csr.Spec.Request))
}

// shortenLifetime limits the lifetime of a peer's certificate. Liqo requests no lifetime, so the
// certificate would get the signer's default, usually one year.
func (s *signing) shortenLifetime(_ context.Context, req admission.Request) admission.Response {
	return patchObject(req, func(csr *certificatesv1.CertificateSigningRequest) (bool, []string, error) {
		seconds := int32(s.lifetime / time.Second) //nolint:gosec // the flag for the lifetime accepts at most a year
		if _, ofLiqo := csr.Labels[csrLabel]; !ofLiqo || csr.Spec.ExpirationSeconds != nil && *csr.Spec.ExpirationSeconds <= seconds {
			return false, nil, nil
		}
		csr.Spec.ExpirationSeconds = &seconds
		return true, nil, nil
	})
}

// toResponse converts an error to a refusal. The refusal has the reason Invalid instead of
// Forbidden: Liqo's replicator retries the creation after Invalid, but gives up after Forbidden.
func toResponse(err error) admission.Response {
	if err == nil {
		return admission.Allowed("")
	}
	refusal := (*guard.Refusal)(nil)
	if !errors.As(err, &refusal) {
		ctrl.Log.WithName("signing").Error(err, reasonNotReady)
		return admission.Errored(http.StatusInternalServerError, errors.New(reasonNotReady))
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: refusal.Error(),
	}}}
}

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
