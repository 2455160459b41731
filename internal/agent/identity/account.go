package identity

import (
	"context"
	"errors"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
)

// Account is an Enroller for a cluster that authenticates to the broker with a ServiceAccount of
// the broker's cluster instead of a certificate. It requests the first certificate with the call
// that otherwise renews one.
type Account struct{ Broker Renewer }

// Rules implements Enroller.
func (a Account) Rules(ctx context.Context) (*v1.EnrolmentRules, error) {
	pong, err := a.Broker.Ping(ctx)
	if err != nil {
		return nil, err
	}
	if pong.TrustDomain == "" {
		return nil, errors.New("this broker issues no certificates: install a certificate by hand, or set --enrolment-url")
	}
	return &v1.EnrolmentRules{TrustDomain: pong.TrustDomain}, nil
}

// Enrol implements Enroller. No approval is needed, because the ServiceAccount proves which cluster
// this is.
func (a Account) Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *httptransport.Approval, error) {
	issued, err := a.Broker.RenewCertificate(ctx, &v1.RenewalRequest{Csr: request.Csr})
	return issued, nil, err
}
