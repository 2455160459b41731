package server

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// operations passes the API's operations on to the broker. The context holds the caller.
type operations struct {
	broker Broker
	// certificates issues certificates to clusters; nil if the broker issues none.
	certificates Certificates
	// trust returns the digest of the roots that the broker distributes.
	trust    func() (string, error)
	renewals *limits
	// costs limits how often one cluster reads its costs.
	costs *limits
	clock clock.PassiveClock
	// draining ends when the server is about to stop. Long polls end with it.
	draining context.Context
}

var _ v1.StrictServerInterface = operations{}

func (o operations) Ping(ctx context.Context, _ v1.PingRequestObject) (v1.PingResponseObject, error) {
	pong, err := o.broker.Ping(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	answer := *pong
	if answer.TrustDigest, err = o.trust(); err != nil {
		return nil, err
	}
	if o.certificates != nil {
		rules, err := o.certificates.Rules(ctx)
		if err != nil {
			return nil, err
		}
		answer.TrustDomain = rules.TrustDomain
	}
	return v1.Ping200JSONResponse(answer), nil
}

func (o operations) PublishAdvertisement(ctx context.Context, r v1.PublishAdvertisementRequestObject) (v1.PublishAdvertisementResponseObject, error) {
	if err := checkCaller(ctx, "clusterID", r.Body.ClusterID); err != nil {
		return nil, err
	}
	receipt, err := o.broker.PublishAdvertisement(ctx, callerOf(ctx), r.Body)
	if err != nil {
		return nil, err
	}
	return v1.PublishAdvertisement200JSONResponse(*receipt), nil
}

func (o operations) RequestReservation(ctx context.Context, r v1.RequestReservationRequestObject) (v1.RequestReservationResponseObject, error) {
	if err := checkCaller(ctx, "requesterID", r.Body.RequesterID); err != nil {
		return nil, err
	}
	reservation, err := o.broker.RequestReservation(ctx, callerOf(ctx), r.Params.IdempotencyKey, r.Body)
	if err != nil {
		return nil, err
	}
	if reservation.Phase == v1.ReservationPhaseQueued {
		return v1.RequestReservation202JSONResponse(withLists(reservation)), nil
	}
	return v1.RequestReservation200JSONResponse(withLists(reservation)), nil
}

func (o operations) RequestQuote(ctx context.Context, r v1.RequestQuoteRequestObject) (v1.RequestQuoteResponseObject, error) {
	if err := checkCaller(ctx, "requesterID", r.Body.RequesterID); err != nil {
		return nil, err
	}
	quote, err := o.broker.RequestQuote(ctx, callerOf(ctx), r.Params.IdempotencyKey, r.Body)
	if err != nil {
		return nil, err
	}
	return v1.RequestQuote200JSONResponse(*quote), nil
}

func (o operations) ReleaseQuote(ctx context.Context, r v1.ReleaseQuoteRequestObject) (v1.ReleaseQuoteResponseObject, error) {
	return v1.ReleaseQuote204Response{}, o.broker.ReleaseQuote(ctx, callerOf(ctx), r.Name)
}

func (o operations) GetReservation(ctx context.Context, r v1.GetReservationRequestObject) (v1.GetReservationResponseObject, error) {
	reservation, err := o.broker.GetReservation(ctx, callerOf(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	return v1.GetReservation200JSONResponse(withLists(reservation)), nil
}

func (o operations) ChangeReservation(ctx context.Context, r v1.ChangeReservationRequestObject) (v1.ChangeReservationResponseObject, error) {
	reservation, err := o.broker.ChangeReservation(ctx, callerOf(ctx), r.Name, r.Body)
	if err != nil {
		return nil, err
	}
	return v1.ChangeReservation200JSONResponse(withLists(reservation)), nil
}

func (o operations) ReleaseReservation(ctx context.Context, r v1.ReleaseReservationRequestObject) (v1.ReleaseReservationResponseObject, error) {
	reservation, err := o.broker.ReleaseReservation(ctx, callerOf(ctx), r.Name, r.Params.Actor)
	if err != nil {
		return nil, err
	}
	if reservation == nil {
		return v1.ReleaseReservation204Response{}, nil
	}
	return v1.ReleaseReservation200JSONResponse(withLists(reservation)), nil
}

func (o operations) ReportStatus(ctx context.Context, r v1.ReportStatusRequestObject) (v1.ReportStatusResponseObject, error) {
	return v1.ReportStatus204Response{}, o.broker.ReportStatus(ctx, callerOf(ctx), r.Name, r.Body)
}

func (o operations) FetchInstructions(ctx context.Context, r v1.FetchInstructionsRequestObject) (v1.FetchInstructionsResponseObject, error) {
	ctx, cancel := o.untilDraining(ctx)
	defer cancel()
	list, err := o.broker.FetchInstructions(ctx, callerOf(ctx), r.Params.After, seconds(r.Params.Wait))
	if err != nil {
		return nil, explainDraining(ctx, err)
	}
	answer := *list
	if answer.Instructions == nil {
		answer.Instructions = []v1.Instruction{}
	}
	return v1.FetchInstructions200JSONResponse(answer), nil
}

// Limits of one cluster's calls of ListCosts. Each call may read a hundred objects.
const (
	costsRate rate.Limit = 0.2

	costsBurst = 10
)

func (o operations) ListCosts(ctx context.Context, r v1.ListCostsRequestObject) (v1.ListCostsResponseObject, error) {
	done, err := o.costs.admitRequest(callerOf(ctx), o.clock.Now())
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := o.broker.ListCosts(ctx, callerOf(ctx), &r.Params)
	if err != nil {
		return nil, err
	}
	return v1.ListCosts200JSONResponse(*list), nil
}

func (o operations) AnnounceHoldings(ctx context.Context, r v1.AnnounceHoldingsRequestObject) (v1.AnnounceHoldingsResponseObject, error) {
	return v1.AnnounceHoldings204Response{}, o.broker.AnnounceHoldings(ctx, callerOf(ctx), r.Body)
}

func (o operations) SendMessage(ctx context.Context, r v1.SendMessageRequestObject) (v1.SendMessageResponseObject, error) {
	if err := checkCaller(ctx, "from", r.Body.From); err != nil {
		return nil, err
	}
	r.Body.From = callerOf(ctx)
	return v1.SendMessage204Response{}, o.broker.SendMessage(ctx, callerOf(ctx), r.Body)
}

func (o operations) ReceiveMessages(ctx context.Context, r v1.ReceiveMessagesRequestObject) (v1.ReceiveMessagesResponseObject, error) {
	ctx, cancel := o.untilDraining(ctx)
	defer cancel()
	list, err := o.broker.ReceiveMessages(ctx, callerOf(ctx), r.Params.After, seconds(r.Params.Wait))
	if err != nil {
		return nil, explainDraining(ctx, err)
	}
	answer := *list
	if answer.Messages == nil {
		answer.Messages = []v1.Message{}
	}
	return v1.ReceiveMessages200JSONResponse(answer), nil
}

// checkCaller refuses a request that names another cluster as its caller. The name is optional.
func checkCaller(ctx context.Context, field, named string) error {
	if caller := callerOf(ctx); named != "" && named != caller {
		return fault.New(fault.Forbidden, "%s is %q, but the caller is cluster %q: a cluster can only act for itself",
			field, named, caller)
	}
	return nil
}

// withLists replaces nil lists by empty ones where the description requires a list.
func withLists(r *v1.Reservation) v1.Reservation {
	whole := *r
	if whole.Placements == nil {
		whole.Placements = []v1.Placement{}
	}
	return whole
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

var errDraining = errors.New("server is draining")

func (o operations) untilDraining(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(o.draining, func() { cancel(errDraining) })
	return ctx, func() { stop(); cancel(nil) }
}

// explainDraining replaces the error of a poll that the server's stop ended, so that the agent retries.
func explainDraining(ctx context.Context, err error) error {
	if !errors.Is(context.Cause(ctx), errDraining) {
		return err
	}
	return &fault.Error{Reason: fault.Unavailable, Detail: "the broker is shutting down: retry", RetryAfter: time.Second}
}
