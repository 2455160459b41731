package identity

import (
	"context"
	"errors"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
)

// Account enrols a cluster that authenticates to the broker with a ServiceAccount of the
// broker's cluster instead of a certificate. Its first certificate is requested in the same way
// as a renewal.
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

// Enrol implements Enroller. The ServiceAccount identifies the cluster, so no approval is needed.
func (a Account) Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *httptransport.Approval, error) {
	issued, err := a.Broker.RenewCertificate(ctx, &v1.RenewalRequest{Csr: request.Csr})
	return issued, nil, err
}
