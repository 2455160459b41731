package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/time/rate"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replica"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

const (
	// quotePath is a path on the port of the webhooks. There the leader answers other replicas' requests for quotes,
	// because only the leader has the state with which the broker decides.
	quotePath = "/quote-reservation"
	// maxQuoteBody is the maximum size of a question or an answer, in bytes.
	maxQuoteBody = 1 << 20
	// relayedRate (per second) and relayedBurst limit the quotes that the leader answers for other replicas. Each
	// replica also limits its own users.
	relayedRate, relayedBurst = 20, 40
)

// quoter returns what the broker would decide about a Reservation now, without reserving anything. A replica that does
// not lead asks the leader.
type quoter struct {
	// decide asks the broker in this process.
	decide func(context.Context, *brokerv1alpha1.Reservation) (*v1.Quote, error)
	// webhooksOfLeader returns the address of the leader's webhooks. It is "" if this replica leads, or if the address
	// is unknown.
	webhooksOfLeader func() string
	// certDir is the folder of the webhooks' certificate, which all replicas share.
	certDir string
	limit   *rate.Limiter
	now     func() time.Time
}

// newQuoter returns the quoter of a replica. e is nil if there is only one replica.
func newQuoter(b *broker.Broker, e *replica.Election, certDir string, now func() time.Time) *quoter {
	return &quoter{
		decide: func(ctx context.Context, r *brokerv1alpha1.Reservation) (*v1.Quote, error) {
			request, err := specs.ReadRequest(r)
			if err != nil {
				return nil, fault.New(fault.Invalid, "%v", err)
			}
			return broker.QuoteObject(ctx, b, request)
		},
		webhooksOfLeader: func() string {
			if e == nil {
				return ""
			}
			leader, _ := e.Leader()
			return leader.Webhooks
		},
		certDir: certDir, limit: rate.NewLimiter(relayedRate, relayedBurst), now: now,
	}
}

func (q *quoter) quoteReservation(ctx context.Context, r *brokerv1alpha1.Reservation) (*v1.Quote, error) {
	if address := q.webhooksOfLeader(); address != "" {
		return q.askLeader(ctx, address, r)
	}
	return q.decide(ctx, r)
}

// ServeHTTP answers another replica. It returns a refusal as a v1.Problem.
func (q *quoter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := q.answer(r)
	code, body := http.StatusOK, any(answer)
	if err != nil {
		no, refused := errors.AsType[*fault.Error](err)
		if !refused {
			no = fault.New(fault.Internal, "%v", err)
		}
		code, body = no.Reason.HTTPStatus(), v1.Problem{Reason: string(no.Reason), Detail: no.Detail}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // fails only if the other replica has gone away
}

func (q *quoter) answer(r *http.Request) (*v1.Quote, error) {
	if !q.limit.AllowN(q.now(), 1) {
		return nil, fault.New(fault.TooManyRequests, "too many dry runs at once: repeat it in a few seconds")
	}
	reservation := &brokerv1alpha1.Reservation{}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxQuoteBody)).Decode(reservation); err != nil {
		return nil, fault.New(fault.Invalid, "reading the Reservation: %v", err)
	}
	return q.decide(r.Context(), reservation)
}

func (q *quoter) askLeader(ctx context.Context, address string, r *brokerv1alpha1.Reservation) (*v1.Quote, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	config, err := q.tlsConfig()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+quotePath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// Dry runs are rare, so the connection is not kept.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the replica that leads: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // the body was read or is unusable, so an error does not matter
	decoder := json.NewDecoder(io.LimitReader(response.Body, maxQuoteBody))
	if response.StatusCode != http.StatusOK {
		var no v1.Problem
		if err := decoder.Decode(&no); err != nil || no.Reason == "" {
			return nil, fmt.Errorf("the replica that leads answered %q", response.Status)
		}
		return nil, fault.New(fault.Reason(no.Reason), "%s", no.Detail)
	}
	quote := &v1.Quote{}
	if err := decoder.Decode(quote); err != nil {
		return nil, fmt.Errorf("reading the answer of the replica that leads: %w", err)
	}
	return quote, nil
}

// tlsConfig returns a configuration that accepts only a server with the certificate of this replica's own webhooks.
func (q *quoter) tlsConfig() (*tls.Config, error) {
	text, err := os.ReadFile(filepath.Join(q.certDir, pki.CertFile))
	if err != nil {
		return nil, fmt.Errorf("certificate of the webhooks: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("certificate of the webhooks: no PEM block")
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the whole certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			if shown := state.PeerCertificates; len(shown) == 0 || !bytes.Equal(shown[0].Raw, block.Bytes) {
				return errors.New("the replica that leads shows another certificate: it may just have been replaced")
			}
			return nil
		},
	}, nil
}
