package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// enrolmentTag marks the operations in the API description that are for clusters without a certificate.
const enrolmentTag = "enrolment"

// Limits of the enrolment listener, which is open to anyone.
const (
	// enrolmentRate and enrolmentBurst limit the requests from one address, per second and at once. Many clusters may
	// share an address behind a gateway; each asks every half minute while it waits for approval.
	enrolmentRate rate.Limit = 5

	enrolmentBurst = 20
	// enrolmentTotal and enrolmentTotalBurst limit the requests from all addresses together. Each request costs the API
	// server one or two reads.
	enrolmentTotal rate.Limit = 50

	enrolmentTotalBurst = 100
	// enrolmentConnections keeps strangers from exhausting the file descriptors that agents need. A connection ends
	// after one answer.
	enrolmentConnections = 1024
	// enrolmentRead is how long a whole request may take to arrive. No request here polls.
	enrolmentRead = 10 * time.Second
	// enrolmentBody fits the largest request that the description allows.
	enrolmentBody = 64 << 10
	// enrolmentWrite is long enough for an issuer to sign a certificate.
	enrolmentWrite = 45 * time.Second
)

// Limits of one cluster's renewals. Each renewal costs the issuer a signature, and a certificate lasts for hours.
const (
	renewalRate rate.Limit = 0.1

	renewalBurst = 5
)

// Certificates issues certificates to clusters.
type Certificates interface {
	// Rules returns the requirements for certificate requests.
	Rules(ctx context.Context) (*v1.EnrolmentRules, error)
	// Enrol issues a cluster's first certificate, or returns the reason why the cluster must wait.
	Enrol(ctx context.Context, req *v1.EnrolmentRequest) (*v1.IssuedCertificate, *v1.EnrolmentPending, error)
	// Renew issues a new certificate to clusterID.
	Renew(ctx context.Context, clusterID string, req *v1.RenewalRequest) (*v1.IssuedCertificate, error)
}

// NewEnrolment returns the server for clusters without a certificate. It asks for no client certificate and serves
// only the enrolment operations. It requires the options CertDir and Certificates; Addr is ":8444" if empty.
func NewEnrolment(o Options) (*Server, error) {
	if o.Certificates == nil {
		return nil, errors.New("enrolment server without an issuer of certificates")
	}
	o.Addr, o.Rate, o.Burst = cmp.Or(o.Addr, ":8444"), cmp.Or(o.Rate, enrolmentRate), cmp.Or(o.Burst, enrolmentBurst)
	s, err := newServer(o, "enrolment")
	if err != nil {
		return nil, err
	}
	s.limits.noun = "address"
	s.limits.total = rate.NewLimiter(enrolmentTotal, enrolmentTotalBurst)
	s.description.maxBody = enrolmentBody
	s.identify = addressOf
	s.unknownPath = "no such path: this is the enrolment listener, for clusters without a certificate; agents call the broker's other port, 8443 by default"
	s.maxConnections = enrolmentConnections
	// A limit on the bodies of an address would let one client with endless bodies block others behind the same
	// gateway.
	s.limits.bodyRate = rate.Inf
	// Requests whose bodies never arrive completely must not use up the rate of their address.
	s.admitsLate = true
	s.description.arrived = func(r *http.Request) (func(), error) {
		return s.limits.admitRequest(callerOf(r.Context()), s.opts.Clock.Now())
	}
	s.registerRoutes(operations{certificates: o.Certificates}, func(op operation) bool { return op.enrolment })
	s.http.TLSConfig = s.files.EnrolmentTLS("http/1.1")
	s.http.SetKeepAlivesEnabled(false)
	s.http.ReadTimeout = enrolmentRead
	s.http.WriteTimeout = enrolmentWrite
	return s, nil
}

// addressOf returns the caller's address, by which a caller without a certificate is identified.
func addressOf(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return host, err
}

func (o operations) GetEnrolmentRules(ctx context.Context, _ v1.GetEnrolmentRulesRequestObject) (v1.GetEnrolmentRulesResponseObject, error) {
	rules, err := o.certificates.Rules(ctx)
	if err != nil {
		return nil, err
	}
	return v1.GetEnrolmentRules200JSONResponse(*rules), nil
}

// approvalRetry is the interval at which a cluster asks whether it was approved.
const approvalRetry = 30 * time.Second

func (o operations) Enrol(ctx context.Context, r v1.EnrolRequestObject) (v1.EnrolResponseObject, error) {
	issued, pending, err := o.certificates.Enrol(ctx, r.Body)
	if err != nil {
		return nil, err
	}
	if pending != nil {
		return v1.Enrol202JSONResponse{
			Body:    *pending,
			Headers: v1.Enrol202ResponseHeaders{RetryAfter: int(approvalRetry.Seconds())},
		}, nil
	}
	return v1.Enrol200JSONResponse(*issued), nil
}

func (o operations) RenewCertificate(ctx context.Context, r v1.RenewCertificateRequestObject) (v1.RenewCertificateResponseObject, error) {
	if o.certificates == nil {
		return nil, fault.New(fault.NotFound, "this broker issues no certificates: renew the certificate at its issuer")
	}
	done, err := o.renewals.admitRequest(callerOf(ctx), o.clock.Now())
	if err != nil {
		return nil, err
	}
	defer done()
	issued, err := o.certificates.Renew(ctx, callerOf(ctx), r.Body)
	if err != nil {
		return nil, err
	}
	return v1.RenewCertificate200JSONResponse(*issued), nil
}
