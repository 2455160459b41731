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
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Options of an Enroller. BrokerURLs, EnrolmentURL, Listens and IssueWait are optional.
type Options struct {
	// Client must bypass caches: a token that was just created or just used must be visible.
	Client client.WithWatch
	// Namespace of tokens and CertificateRequests.
	Namespace string
	// Issuer is the cert-manager issuer of agents' certificates.
	Issuer cmmeta.IssuerReference
	// TrustDomain of the URI SANs of agents' certificates.
	TrustDomain string
	// Duration is the requested lifetime of a certificate.
	Duration time.Duration
	// BrokerURLs are the broker's addresses for agents, EnrolmentURL its address for enrolment;
	// empty if unknown.
	BrokerURLs   []string
	EnrolmentURL string
	// Listens says that clusters can enrol here, and not only renew.
	Listens bool
	// Files hold the CAs that agents receive and that issued certificates must lead to.
	Files *pki.Files
	// Access holds the policy in force.
	Access *access.Gate
	// Recorder emits events about waiting clusters and repeated enrolments.
	Recorder events.EventRecorder
	Log      logr.Logger
	Clock    clock.WithTicker
	// IssueWait is how long a call waits for the issuer, 8s if zero. It must be shorter than the
	// agent's timeout; the next call continues with the same request.
	IssueWait time.Duration
}

// Enroller implements the server's Certificates. As a runnable of a manager it also removes
// expired objects and keeps Facts up to date.
type Enroller struct{ Options }

const defaultIssueWait = 8 * time.Second

// trustDomainPattern follows the SPIFFE ID specification.
var trustDomainPattern = regexp.MustCompile(`^[a-z0-9._-]{1,255}$`)

// New validates the options.
func New(o Options) (*Enroller, error) {
	if o.Issuer.Name == "" {
		return nil, errors.New("enrolment needs an issuer of certificates: set --agents-issuer-name")
	}
	if o.Issuer.Kind != "Issuer" && o.Issuer.Kind != "ClusterIssuer" {
		return nil, fmt.Errorf("--agents-issuer-kind %q: want Issuer or ClusterIssuer", o.Issuer.Kind)
	}
	if !trustDomainPattern.MatchString(o.TrustDomain) {
		return nil, fmt.Errorf("--trust-domain %q: want lower-case letters, digits, dots, dashes and underscores", o.TrustDomain)
	}
	// cert-manager refuses shorter durations.
	if o.Duration < time.Hour {
		return nil, fmt.Errorf("--agent-certificate-duration %s: the minimum is 1h", o.Duration)
	}
	if o.IssueWait == 0 {
		o.IssueWait = defaultIssueWait
	}
	return &Enroller{o}, nil
}

// Rules implements the server's Certificates.
func (e *Enroller) Rules(context.Context) (*v1.EnrolmentRules, error) {
	return &v1.EnrolmentRules{TrustDomain: e.TrustDomain}, nil
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
	outcome, err := e.admitApplication(ctx, policy, Application{ClusterID: req.ClusterID, Fingerprint: request.Fingerprint, Token: req.Token})
	if err != nil {
		return nil, nil, err
	}
	if !outcome.Issue {
		pending, err := e.recordPending(ctx, policy, request, outcome.Why)
		return nil, pending, err
	}
	issued, err := e.issueCertificate(ctx, request)
	if err != nil {
		return nil, nil, err
	}
	e.Log.Info("cluster enrolled", "cluster", request.ClusterID, "key", request.Fingerprint, "token", req.Token != "")
	e.removePending(ctx, request)
	return issued, nil, nil
}

// Renew implements the server's Certificates.
func (e *Enroller) Renew(ctx context.Context, clusterID string, req *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	// The listener checked too. A certificate is worth a second check, because the policy may have
	// changed.
	if err := e.Access.Check(clusterID); err != nil {
		return nil, err
	}
	request, err := CheckRequest(req.Csr, clusterID, e.TrustDomain)
	if err != nil {
		return nil, err
	}
	issued, err := e.issueCertificate(ctx, request)
	if err != nil {
		return nil, err
	}
	e.Log.Info("certificate renewed", "cluster", clusterID, "key", request.Fingerprint)
	return issued, nil
}
