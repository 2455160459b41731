package enrolment

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Options of an Enroller. BrokerURLs, EnrolmentURL, Listens and IssueWait may
// be left out.
type Options struct {
	// Client reads past any cache: a token that was just made, or just used, counts.
	Client client.WithWatch
	// Namespace of tokens and CertificateRequests.
	Namespace string
	// Issuer is the one of cert-manager that signs agents' certificates.
	Issuer cmmeta.IssuerReference
	// TrustDomain of the alternative names of agents' certificates.
	TrustDomain string
	// Duration is how long a certificate is asked to be valid.
	Duration time.Duration
	// BrokerURLs are where agents reach the broker, EnrolmentURL is where clusters
	// enrol; what is not known is left empty.
	BrokerURLs   []string
	EnrolmentURL string
	// Listens says that clusters can enrol here, and not only renew.
	Listens bool
	// Files hold the CAs that agents are given, and that certificates must lead to.
	Files *pki.Files
	// Access is whose policy decides.
	Access *access.Gate
	// Recorder tells administrators who waits, and who came with another key.
	Recorder events.EventRecorder
	Log      logr.Logger
	Clock    clock.WithTicker
	// IssueWait is how long a call waits for the issuer, 8s if zero: less than the
	// agent waits for its call. The next call goes on where this one ended.
	IssueWait time.Duration
}

// Enroller is the server's Certificates. As a runnable of a manager it also removes
// what nobody needs any more, and keeps Facts up to date.
type Enroller struct{ Options }

const defaultIssueWait = 8 * time.Second

// trustDomainPattern is that of the SPIFFE ID specification.
var trustDomainPattern = regexp.MustCompile(`^[a-z0-9._-]{1,255}$`)

// New checks the options.
func New(o Options) (*Enroller, error) {
	if o.Issuer.Name == "" {
		return nil, errors.New("enrolment without an issuer of certificates: set --agents-issuer-name")
	}
	if o.Issuer.Kind != "Issuer" && o.Issuer.Kind != "ClusterIssuer" {
		return nil, fmt.Errorf("--agents-issuer-kind %q: want Issuer or ClusterIssuer", o.Issuer.Kind)
	}
	if !trustDomainPattern.MatchString(o.TrustDomain) {
		return nil, fmt.Errorf("--trust-domain %q: want lower-case letters, digits, dots, dashes and underscores", o.TrustDomain)
	}
	// cert-manager refuses less.
	if o.Duration < time.Hour {
		return nil, fmt.Errorf("--agent-certificate-duration %s: the least is 1h", o.Duration)
	}
	if o.IssueWait == 0 {
		o.IssueWait = defaultIssueWait
	}
	return &Enroller{o}, nil
}

// Terms implements the server's Certificates.
func (e *Enroller) Terms(context.Context) (*v1.EnrolmentTerms, error) {
	return &v1.EnrolmentTerms{TrustDomain: e.TrustDomain}, nil
}

// Enrol implements the server's Certificates.
func (e *Enroller) Enrol(ctx context.Context, req *v1.EnrolmentRequest) (*v1.IssuedCertificate, *v1.EnrolmentPending, error) {
	policy, err := e.Access.Policy()
	if err != nil {
		return nil, nil, err
	}
	request, err := CheckRequest(req.Csr, req.ClusterID, e.TrustDomain)
	if err != nil {
		return nil, nil, err
	}
	outcome, err := e.admit(ctx, policy, Application{ClusterID: req.ClusterID, Fingerprint: request.Fingerprint, Token: req.Token})
	if err != nil {
		return nil, nil, err
	}
	if !outcome.Issue {
		pending, err := e.wait(ctx, policy, request, outcome.Why)
		return nil, pending, err
	}
	issued, err := e.issue(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	e.Log.Info("Cluster is enrolled", "cluster", request.ClusterID, "key", request.Fingerprint, "token", req.Token != "")
	e.enrolled(ctx, request)
	return issued, nil, nil
}

// Renew implements the server's Certificates.
func (e *Enroller) Renew(ctx context.Context, clusterID string, req *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	// The listener has asked too; a certificate is worth asking again.
	if err := e.Access.Check(clusterID); err != nil {
		return nil, err
	}
	request, err := CheckRequest(req.Csr, clusterID, e.TrustDomain)
	if err != nil {
		return nil, err
	}
	issued, err := e.issue(ctx, request)
	if err != nil {
		return nil, err
	}
	e.Log.Info("Certificate is renewed", "cluster", clusterID, "key", request.Fingerprint)
	return issued, nil
}
