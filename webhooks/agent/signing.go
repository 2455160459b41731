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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Paths of the webhooks that decide which certificates peers get.
const (
	SlicePath      = "/validate-authentication-liqo-io-v1beta1-resourceslice"
	SigningPath    = "/validate-certificates-k8s-io-v1-certificatesigningrequest"
	ShortenPath    = "/mutate-certificates-k8s-io-v1-certificatesigningrequest"
	csrLabel       = object.RemoteTenantCSRLabel
	reasonNotReady = "the certificate request could not be checked, try again"
)

// signing decides which certificates this cluster signs for peers.
type signing struct {
	slice    func(ctx context.Context, consumer string, slice *object.ResourceSlice) error
	request  func(ctx context.Context, csr []byte) error
	lifetime time.Duration
}

// SetupSigning serves the webhooks that keep Liqo from signing anything for a peer but
// its own identities, and that bound how long these live.
func SetupSigning(mgr ctrl.Manager, peering *liqo.Peering, lifetime time.Duration) {
	s := &signing{slice: peering.CheckSliceSigning, request: peering.CheckSigning, lifetime: lifetime}
	for path, handle := range map[string]admission.HandlerFunc{
		SlicePath: s.checkSlice, SigningPath: s.checkRequest, ShortenPath: s.shorten,
	} {
		mgr.GetWebhookServer().Register(path, &admission.Webhook{Handler: handle})
	}
}

// checkSlice refuses a ResourceSlice of a peer whose certificate request is for anything
// but the slice's own identity. An update that leaves the request alone is not held up.
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
	return answer(s.slice(ctx, req.UserInfo.Username, &slice))
}

// checkRequest refuses a CertificateSigningRequest of Liqo's for anything but one identity
// of a peer.
func (s *signing) checkRequest(ctx context.Context, req admission.Request) admission.Response {
	var csr certificatesv1.CertificateSigningRequest
	if err := json.Unmarshal(req.Object.Raw, &csr); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if _, ofLiqo := csr.Labels[csrLabel]; !ofLiqo {
		return admission.Allowed("")
	}
	return answer(s.request(ctx, csr.Spec.Request))
}

// shorten bounds how long the certificate of a peer lives. Liqo asks for no lifetime, and
// gets the signer's, which is a year unless the cluster says otherwise.
func (s *signing) shorten(_ context.Context, req admission.Request) admission.Response {
	var csr certificatesv1.CertificateSigningRequest
	if err := json.Unmarshal(req.Object.Raw, &csr); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	seconds := int32(s.lifetime / time.Second) //nolint:gosec // the flag is at most a year
	if _, ofLiqo := csr.Labels[csrLabel]; !ofLiqo || csr.Spec.ExpirationSeconds != nil && *csr.Spec.ExpirationSeconds <= seconds {
		return admission.Allowed("")
	}
	csr.Spec.ExpirationSeconds = &seconds
	shorter, err := json.Marshal(&csr)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, shorter)
}

// answer refuses as invalid, not as forbidden: Liqo's replicator takes a creation that is
// forbidden for the provider's last word, and tries one that is invalid again.
func answer(err error) admission.Response {
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
