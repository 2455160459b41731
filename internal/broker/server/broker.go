// Package server is the broker's REST API: mTLS, identity, limits and problem
// documents around a Broker that decides.
//
//	TLS 1.3, client certificate ─▶ identity ─▶ limits ─▶ API description ─▶ Broker
//	                                 403         429          400        *fault.Error
//
// The description in api/rest/v1/openapi.yaml is what requests are checked
// against, so what it promises about fields and bounds is what holds.
package server

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// Broker decides. clusterID is always the caller's, from its verified certificate;
// where a body names a cluster as the caller, the server has checked that it is
// this one. Bodies satisfy the API description; amounts are not parsed yet.
//
// Every call can come again after it was answered, and must then do no harm. An
// error that is no *fault.Error reaches the caller as Internal, without its text.
type Broker interface {
	// Ping answers only while the broker can write.
	Ping(ctx context.Context) (*v1.Pong, error)
	// PublishAdvertisement takes what clusterID offers.
	PublishAdvertisement(ctx context.Context, clusterID string, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error)
	// RequestReservation decides, and returns once the decision is durable. One key
	// of one cluster is one reservation.
	RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error)
	// RequestQuote decides, and takes nothing. Where req.HoldSeconds is set it holds what
	// it chose: one key of one cluster, which is not "" then, is one hold.
	RequestQuote(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Quote, error)
	// ReleaseQuote gives back what is held for clusterID. Where there was none, nameOrKey is
	// shut as a key of quotes.
	ReleaseQuote(ctx context.Context, clusterID, nameOrKey string) error
	// GetReservation finds a reservation in which clusterID takes part.
	GetReservation(ctx context.Context, clusterID, nameOrKey string) (*v1.Reservation, error)
	// ChangeReservation changes how long a reservation of clusterID is held.
	ChangeReservation(ctx context.Context, clusterID, nameOrKey string, change *v1.ReservationChange) (*v1.Reservation, error)
	// ReleaseReservation ends a reservation of clusterID. It returns nil, nil where
	// there was none; nameOrKey is then shut as a key.
	ReleaseReservation(ctx context.Context, clusterID, nameOrKey string) (*v1.Reservation, error)
	// ReportStatus takes how far clusterID is with a placement.
	ReportStatus(ctx context.Context, clusterID, reservation string, report *v1.StatusReport) error
	// AnnounceHoldings takes everything that clusterID provides and consumes.
	AnnounceHoldings(ctx context.Context, clusterID string, h *v1.Holdings) error
	// Witness notes the cursor that clusterID shows with a call, before the call.
	Witness(clusterID, cursor string)
	// FetchInstructions returns what is new since cursor, "" for everything. With
	// nothing new it waits up to wait, then returns an empty list. It returns as soon
	// as ctx ends.
	FetchInstructions(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.InstructionList, error)
	// SendMessage keeps an envelope for msg.To; msg.From is clusterID.
	SendMessage(ctx context.Context, clusterID string, msg *v1.Message) error
	// ReceiveMessages waits as FetchInstructions does.
	ReceiveMessages(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.MessageList, error)
}
