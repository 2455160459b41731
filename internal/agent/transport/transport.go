// Package transport defines what an agent can say to the broker, independent of the protocol.
// Controllers depend only on these interfaces.
package transport

import (
	"context"
	"errors"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// BrokerCommunicator is the part of the protocol that every transport supports. All calls are
// idempotent: the broker answers a repetition with the current state.
//
// Errors wrap ErrUnreachable if the broker was not reached or cannot answer now, and are a
// *fault.Error if it refused.
type BrokerCommunicator interface {
	// PublishAdvertisement publishes what this cluster offers.
	PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error)
	// RequestReservation asks for capacity. key makes repetitions idempotent.
	RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error)
	// FetchInstructions returns what is new since the cursor; it waits up to wait for something
	// new.
	FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error)
	// Ping returns the broker's identity and version.
	Ping(ctx context.Context) (*v1.Pong, error)
	// Close closes idle connections.
	Close() error
}

// Releaser releases reservations.
type Releaser interface {
	// ReleaseReservation ends a reservation by its name or idempotency key. If the broker knew
	// none, it returns nil, nil, and the key can no longer be used.
	ReleaseReservation(ctx context.Context, nameOrKey string) (*v1.Reservation, error)
}

// Changer changes reservations in place.
type Changer interface {
	// ChangeReservation changes the reservation with an idempotency key. change.Generation
	// identifies repeated and outdated changes.
	ChangeReservation(ctx context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error)
}

// StatusReporter reports the progress of a placement in this cluster.
type StatusReporter interface {
	ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error
}

// Announcer announces this cluster's holdings.
type Announcer interface {
	// AnnounceHoldings lists everything that this cluster provides and consumes.
	AnnounceHoldings(ctx context.Context, h *v1.Holdings) error
}

// Messenger carries signed envelopes to other clusters. Delivery is not durable: senders repeat
// until they are answered.
type Messenger interface {
	SendMessage(ctx context.Context, msg *v1.Message) error
	// ReceiveMessages returns the envelopes newer than the cursor; it waits up to wait for one.
	ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error)
}

// Transport is everything an agent needs from a broker.
type Transport interface {
	BrokerCommunicator
	Releaser
	Changer
	StatusReporter
	Announcer
	Messenger
}

// ErrUnreachable means that the broker did not decide: it was not reached, or could not answer
// now. Retry later.
var ErrUnreachable = errors.New("broker unreachable")

// ErrUntrusted accompanies ErrUnreachable when one side rejects the other's certificate:
// retrying alone does not help.
var ErrUntrusted = errors.New("certificate not accepted")
