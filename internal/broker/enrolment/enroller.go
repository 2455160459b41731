package enrolment

import (
	"cmp"
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

// Options configure an Enroller. BrokerURLs, EnrolmentURL, Listens and IssueWait are optional.
type Options struct {
	// Client must not read from a cache: a token must be visible as soon as it is created or used.
	Client client.WithWatch
	// Namespace is the namespace of the tokens and of the CertificateRequests.
	Namespace string
	// Issuer is the cert-manager issuer of agents' certificates.
	Issuer cmmeta.IssuerReference
	// TrustDomain is the trust domain in the URIs of agents' certificates.
	TrustDomain string
	// Duration is the lifetime of the certificates that are requested from the issuer.
	Duration time.Duration
	// BrokerURLs are the addresses at which agents reach the broker. EnrolmentURL is the address
	// at which clusters enrol. They are empty if they are not known.
	BrokerURLs   []string
	EnrolmentURL string
	// Listens is true if clusters can enrol at this broker. Otherwise agents can only renew their
	// certificates.
	Listens bool
	// Files holds the CAs that agents receive. Issued certificates must be signed by one of its
	// CAs for agents.
	Files *pki.Files
	// Access says which clusters may use the broker.
	Access *access.Gate
	// Recorder records events about clusters that wait for approval and clusters that enrol again.
	Recorder events.EventRecorder
	Log      logr.Logger
	Clock    clock.WithTicker
	// IssueWait is how long a call waits for the issuer; 8s if zero. It must be shorter than the
	// agent's timeout. If the issuer takes longer, the agent's next call continues with the same
	// CertificateRequest.
	IssueWait time.Duration
}

// Enroller issues certificates to clusters; it implements the interface Certificates of the
// server. As a runnable of a manager it also removes expired objects and keeps the published Facts
// up to date.
type Enroller struct{ Options }

const defaultIssueWait = 8 * time.Second

// trustDomainPattern matches valid trust domains, according to the SPIFFE ID specification.
var trustDomainPattern = regexp.MustCompile(`^[a-z0-9._-]{1,255}$`)

// New returns an Enroller, or an error that names the invalid option.
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
	// cert-manager refuses durations below one hour.
	if o.Duration < time.Hour {
		return nil, fmt.Errorf("--agent-certificate-duration %s: the minimum is 1h", o.Duration)
	}
	o.IssueWait = cmp.Or(o.IssueWait, defaultIssueWait)
	return &Enroller{o}, nil
}

// Rules returns what a cluster must know to make a certificate request.
func (e *Enroller) Rules(context.Context) (*v1.EnrolmentRules, error) {
	return &v1.EnrolmentRules{TrustDomain: e.TrustDomain}, nil
}

// Enrol decides about a cluster's request for its first certificate. It returns either the
// certificate, or the reason why the cluster must wait for approval.
func (e *Enroller) Enrol(ctx context.Context, req *v1.EnrolmentRequest) (*v1.IssuedCertificate, *v1.EnrolmentPending, error) {
	policy, err := e.Access.Policy()
	if err != nil {
		return nil, nil, err
	}
	request, err := CheckRequest(req.Csr, req.ClusterID, e.TrustDomain)
	if err != nil {
		return nil, nil, err
	}
	outcome, err := e.admitApplication(ctx, policy, request, req.Token)
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

// Renew issues a new certificate to a cluster that has authenticated itself with its current one.
func (e *Enroller) Renew(ctx context.Context, clusterID string, req *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	// The listener has already checked whether the cluster has access, but the policy may have
	// changed since then.
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
