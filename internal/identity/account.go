package identity

import (
	"context"
	"errors"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/transport/http"
)

// Account enrols a cluster that the broker knows without a certificate: by its account in
// the broker's cluster. The first certificate is then asked for as all that follow.
type Account struct{ Broker Renewer }

// Terms implements Enroller.
func (a Account) Terms(ctx context.Context) (*v1.EnrolmentTerms, error) {
	pong, err := a.Broker.Ping(ctx)
	if err != nil {
		return nil, err
	}
	if pong.TrustDomain == "" {
		return nil, errors.New("this broker issues no certificates, or is of an older version: carry one here, or give --enrolment-url")
	}
	return &v1.EnrolmentTerms{TrustDomain: pong.TrustDomain}, nil
}

// Enrol implements Enroller. Who has the account was approved with it.
func (a Account) Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *httptransport.Approval, error) {
	issued, err := a.Broker.RenewCertificate(ctx, &v1.RenewalRequest{Csr: request.Csr})
	return issued, nil, err
}
