// Package server is the broker's REST API. It authenticates clusters with mTLS, enforces limits and validates
// requests before it passes them to a Broker, and writes errors as problem documents.
//
//	TLS 1.3, client certificate ─▶ identity ─▶ limits ─▶ API description ─▶ Broker
//	                                 403         429          400        *fault.Error
//
// Requests are validated against api/rest/v1/openapi.yaml, so every field and bound in it is enforced.
package server

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// Broker carries out requests. clusterID is always the caller, from its verified certificate. If a body names the
// calling cluster, the server has checked that it is clusterID. Bodies satisfy the API description, but amounts are
// not parsed yet.
//
// Every call must be idempotent, because callers repeat it. An error that is not a *fault.Error reaches the caller as
// Internal, without its text.
type Broker interface {
	// Ping succeeds only while the broker can write.
	Ping(ctx context.Context, clusterID string) (*v1.Pong, error)
	// PublishAdvertisement accepts the offer of clusterID.
	PublishAdvertisement(ctx context.Context, clusterID string, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error)
	// RequestReservation returns once the decision is durable. Requests of one cluster with the same key are about the
	// same reservation.
	RequestReservation(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Reservation, error)
	// RequestQuote decides without reserving. If req.HoldSeconds is set, it holds the chosen capacity; then key is not
	// empty, and requests of one cluster with the same key are about the same hold.
	RequestQuote(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Quote, error)
	// ReleaseQuote releases a quote that is held for clusterID. If there is none, later quotes with the key nameOrKey
	// are refused.
	ReleaseQuote(ctx context.Context, clusterID, nameOrKey string) error
	// GetReservation returns a reservation that clusterID requested or provides.
	GetReservation(ctx context.Context, clusterID, nameOrKey string) (*v1.Reservation, error)
	// ChangeReservation changes the duration or the amounts of a reservation of clusterID.
	ChangeReservation(ctx context.Context, clusterID, nameOrKey string, change *v1.ReservationChange) (*v1.Reservation, error)
	// ReleaseReservation ends a reservation of clusterID. user is the user who asked for it, "" if clusterID names
	// none. If there is no such reservation, ReleaseReservation returns nil, nil, and later requests with the key
	// nameOrKey are refused.
	ReleaseReservation(ctx context.Context, clusterID, nameOrKey, user string) (*v1.Reservation, error)
	// ReportStatus accepts a report of clusterID about its progress with a placement.
	ReportStatus(ctx context.Context, clusterID, reservation string, report *v1.StatusReport) error
	// AnnounceHoldings accepts the complete list of placements that clusterID provides and
	// consumes.
	AnnounceHoldings(ctx context.Context, clusterID string, h *v1.Holdings) error
	// AwaitOpening waits until the broker can answer its first calls, for at most a few seconds. Later, it returns at
	// once. The server calls it before every other method.
	AwaitOpening(ctx context.Context)
	// Witness processes the cursor that clusterID sent with a call. The server calls it before it carries out that
	// call.
	Witness(clusterID, cursor string)
	// FetchInstructions returns the instructions after cursor, or all instructions if cursor is "". If there are
	// none, it waits for new ones until the time wait is over or ctx ends. If none come, it returns an empty list.
	FetchInstructions(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.InstructionList, error)
	// ListCosts returns the rows of the accounts in which clusterID is the requester or the provider.
	ListCosts(ctx context.Context, clusterID string, q *v1.ListCostsParams) (*v1.CostList, error)
	// SendMessage stores the message for msg.To. msg.From is clusterID.
	SendMessage(ctx context.Context, clusterID string, msg *v1.Message) error
	// ReceiveMessages returns the messages after cursor, and waits like FetchInstructions.
	ReceiveMessages(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.MessageList, error)
}
