package enrolment

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

const (
	// requestLabel is the label of the CertificateRequests that the broker creates. Its value
	// is the cluster's ID.
	requestLabel = "broker.fluidos.eu/certificate-of"
	// requestLifetime is how long a CertificateRequest may be used by later calls. Its
	// certificate would be too old after that.
	requestLifetime = 10 * time.Minute
	// failedRetry is how long a cluster must wait before it asks again, after the issuer could
	// not sign.
	failedRetry = 10 * time.Second
)

// issueCertificate obtains a certificate from the issuer, and checks it. The caller has
// already decided that the cluster may have it.
func (e *Enroller) issueCertificate(ctx context.Context, r *Request) (*v1.IssuedCertificate, error) {
	credentials, err := e.Files.Current()
	if err != nil {
		return nil, wrapUnavailable("the broker's own certificates: %w", err)
	}
	asked, err := e.ensureRequest(ctx, r)
	if err != nil {
		return nil, wrapUnavailable("creating the CertificateRequest of cluster %q: %w", r.ClusterID, err)
	}
	certificate, err := e.awaitCertificate(ctx, asked)
	if err != nil {
		return nil, err
	}
	if err := e.checkIssued(r, certificate, credentials.AgentsCA); err != nil {
		failed := fault.New(fault.IssuanceFailed, "the broker's issuer returned an unusable certificate: see the broker's log").RetryIn(failedRetry)
		return nil, fmt.Errorf("%w: %s %q: %w", failed, e.Issuer.Kind, e.Issuer.Name, err)
	}
	return &v1.IssuedCertificate{
		Certificate: string(certificate),
		Ca:          string(pki.EncodeBundle(credentials.ServerRoots)),
		AgentsCA:    string(pki.EncodeBundle(credentials.AgentsRoots)),
		BrokerURLs:  append([]string{}, e.BrokerURLs...),
	}, nil
}

// newCertificateRequest returns the CertificateRequest to create. Its name depends only on the
// cluster and its key, so that a repeated call finds the CertificateRequest of the previous
// call.
func (e *Enroller) newCertificateRequest(r *Request) *cmapi.CertificateRequest {
	_, digits, _ := strings.Cut(r.Fingerprint, ":")
	return &cmapi.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: "agent-" + r.ClusterID + "-" + digits[:16],
			Labels: labelsFor(requestLabel, r.ClusterID),
		},
		Spec: cmapi.CertificateRequestSpec{
			Request:   r.PEM,
			IssuerRef: e.Issuer,
			Duration:  &metav1.Duration{Duration: e.Duration},
			Usages:    []cmapi.KeyUsage{cmapi.UsageDigitalSignature, cmapi.UsageClientAuth},
		},
	}
}

// ensureRequest creates the CertificateRequest, or returns the one that an earlier call created. It
// replaces an earlier one that is too old or names another issuer.
func (e *Enroller) ensureRequest(ctx context.Context, r *Request) (*cmapi.CertificateRequest, error) {
	wanted := e.newCertificateRequest(r)
	err := e.Client.Create(ctx, wanted)
	if !apierrors.IsAlreadyExists(err) {
		return wanted, err
	}
	found := &cmapi.CertificateRequest{}
	if err := e.Client.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
		return nil, err
	}
	if e.Clock.Since(found.CreationTimestamp.Time) < requestLifetime && found.Spec.IssuerRef == wanted.Spec.IssuerRef {
		return found, nil
	}
	if err := e.deleteRequest(ctx, found); err != nil {
		return nil, err
	}
	again := e.newCertificateRequest(r)
	return again, e.Client.Create(ctx, again)
}

// deleteRequest deletes exactly this CertificateRequest, and not a later one with the same
// name.
func (e *Enroller) deleteRequest(ctx context.Context, request *cmapi.CertificateRequest) error {
	return client.IgnoreNotFound(e.Client.Delete(ctx, request, client.Preconditions{UID: &request.UID}))
}

// awaitCertificate waits for the signed certificate and returns it. It deletes the
// CertificateRequest once it is finished, whatever its result. An unfinished CertificateRequest
// stays for the next call.
func (e *Enroller) awaitCertificate(ctx context.Context, asked *cmapi.CertificateRequest) ([]byte, error) {
	ended, err := e.awaitEnd(ctx, asked)
	if err != nil {
		return nil, wrapUnavailable("waiting for %s %q to sign CertificateRequest %q: %w", e.Issuer.Kind, e.Issuer.Name, asked.Name, err)
	}
	if err := e.deleteRequest(ctx, ended); err != nil {
		e.Log.Error(err, "cannot remove a finished CertificateRequest, retrying later", "request", ended.Name)
	}
	return resultOf(ended)
}

// awaitEnd waits until a CertificateRequest is finished, for IssueWait at most.
func (e *Enroller) awaitEnd(ctx context.Context, asked *cmapi.CertificateRequest) (*cmapi.CertificateRequest, error) {
	if hasEnded(asked) {
		return asked, nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.IssueWait)
	defer cancel()
	changes, err := e.Client.Watch(ctx, &cmapi.CertificateRequestList{}, &client.ListOptions{
		Namespace: asked.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", asked.Name),
		Raw: &metav1.ListOptions{ResourceVersion: asked.ResourceVersion},
	})
	if err != nil {
		return nil, err
	}
	var ended *cmapi.CertificateRequest
	_, err = toolswatch.UntilWithoutRetry(ctx, changes, func(change watch.Event) (bool, error) {
		now, ok := change.Object.(*cmapi.CertificateRequest)
		switch {
		case !ok:
			return false, apierrors.FromObject(change.Object)
		case !hasEnded(now) && change.Type == watch.Deleted:
			return false, errors.New("it was deleted")
		}
		ended = now
		return hasEnded(now), nil
	})
	if wait.Interrupted(err) {
		return nil, fmt.Errorf("not signed after %s", e.IssueWait)
	}
	return ended, err
}

func hasEnded(request *cmapi.CertificateRequest) bool {
	certificate, err := resultOf(request)
	return certificate != nil || err != nil
}

// resultOf returns the certificate, or the error, with which a CertificateRequest has
// finished. It returns nil, nil while it is unfinished.
func resultOf(request *cmapi.CertificateRequest) ([]byte, error) {
	for _, c := range request.Status.Conditions {
		if c.Type == cmapi.CertificateRequestConditionDenied && c.Status == cmmeta.ConditionTrue {
			return nil, fault.New(fault.IssuanceDenied, "an approver of certificates in the broker's cluster denied it: %s", c.Message)
		}
		if c.Type != cmapi.CertificateRequestConditionReady {
			continue
		}
		switch {
		case c.Status == cmmeta.ConditionTrue && len(request.Status.Certificate) > 0:
			return request.Status.Certificate, nil
		case c.Reason == cmapi.CertificateRequestReasonDenied:
			return nil, fault.New(fault.IssuanceDenied, "an approver of certificates in the broker's cluster denied it: %s", c.Message)
		case c.Reason == cmapi.CertificateRequestReasonFailed:
			return nil, fault.New(fault.IssuanceFailed, "the broker's issuer could not sign: %s", c.Message).RetryIn(failedRetry)
		}
	}
	return nil, nil
}

// checkIssued returns an error unless the issued certificate can be used to authenticate the
// cluster, and for nothing else. The issuer may have deviated from the request.
func (e *Enroller) checkIssued(r *Request, certificate []byte, agentsCA *x509.CertPool) error {
	chain, err := pki.ParseBundle(certificate)
	if err != nil {
		return err
	}
	leaf := chain[0]
	if pki.KeyHash(leaf) != r.Fingerprint {
		return errors.New("the certificate is for another key")
	}
	id, err := pki.ClusterID(leaf)
	if err != nil {
		return err
	}
	if uri := URIOf(e.TrustDomain, r.ClusterID); id != r.ClusterID || len(leaf.URIs) != 1 || leaf.URIs[0].String() != uri {
		return fmt.Errorf("the certificate names cluster %q with URIs %q, want %q with %q", id, leaf.URIs, r.ClusterID, uri)
	}
	if len(leaf.ExtKeyUsage) != 1 || len(leaf.UnknownExtKeyUsage)+len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 {
		return errors.New("the certificate allows more than client authentication of a cluster")
	}
	if _, err := pki.VerifyChain(chain, agentsCA, e.Clock.Now(), x509.ExtKeyUsageClientAuth); err != nil {
		return fmt.Errorf("%w: is the issuer's CA in %s or %s of --cert-path?", err, pki.AgentsCAFile, pki.AgentsCAAdditionalFile)
	}
	return nil
}
