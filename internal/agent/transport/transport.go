// Package transport defines what an agent can ask of the broker, independently of the protocol.
// Controllers depend only on these interfaces.
package transport

import (
	"context"
	"errors"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// BrokerCommunicator contains the basic calls. All calls are idempotent: the broker answers a
// repeated call with the current state.
//
// A transport limits the time of each call. An error wraps ErrUnreachable if the broker was not
// reached or cannot answer now. If the broker refused the call, the error is a *fault.Error.
type BrokerCommunicator interface {
	// PublishAdvertisement publishes what this cluster offers.
	PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error)
	// RequestReservation asks for capacity. Requests with the same idempotency key are repetitions.
	RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error)
	// FetchInstructions returns the instructions since the cursor. If there are none, the broker
	// holds the call until there is one, or until the time wait is over.
	FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error)
	// Ping returns the broker's identity and version.
	Ping(ctx context.Context) (*v1.Pong, error)
	// Close closes idle connections. The transport cannot be used afterwards.
	Close() error
}

// Releaser releases reservations.
type Releaser interface {
	// ReleaseReservation ends a reservation, given by its name or idempotency key. If the broker
	// does not know it, the call returns nil without an error, and the broker refuses requests with
	// this key from then on. user is the user who releases it, "" if unknown or if the name must not
	// leave this cluster.
	ReleaseReservation(ctx context.Context, nameOrKey, user string) (*v1.Reservation, error)
}

// Changer changes existing reservations.
type Changer interface {
	// ChangeReservation changes the reservation with the idempotency key. change.Generation lets the
	// broker recognize repeated and outdated changes.
	ChangeReservation(ctx context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error)
}

// Quoter asks the broker for quotes: what it would decide about a request.
type Quoter interface {
	// RequestQuote returns the decision that RequestReservation would make now. If req.HoldSeconds
	// is set, the broker holds the capacity; calls with the same idempotency key then return the
	// same quote. If req.HoldSeconds is not set, key is "".
	RequestQuote(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Quote, error)
	// ReleaseQuote releases a held quote, given by its name or idempotency key. If the broker does
	// not know the key, it refuses later requests with that key.
	ReleaseQuote(ctx context.Context, nameOrKey string) error
}

// StatusReporter reports the state of a placement in this cluster.
type StatusReporter interface {
	ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error
}

// Announcer announces what this cluster provides and consumes.
type Announcer interface {
	// AnnounceHoldings sends the complete list of what this cluster provides and consumes, to a
	// broker that has lost state.
	AnnounceHoldings(ctx context.Context, h *v1.Holdings) error
}

// Messenger exchanges signed messages with other clusters through the broker. The broker may lose
// messages, so a sender repeats each one until it gets an answer.
type Messenger interface {
	SendMessage(ctx context.Context, msg *v1.Message) error
	// ReceiveMessages returns the messages since the cursor. If there are none, the broker holds
	// the call until there is one, or until the time wait is over.
	ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error)
}

// Transport contains all calls that an agent needs.
type Transport interface {
	BrokerCommunicator
	Releaser
	Changer
	Quoter
	StatusReporter
	Announcer
	Messenger
}

// ErrUnreachable means that the broker was not reached or could not answer now. Retrying later
// may help.
var ErrUnreachable = errors.New("broker unreachable")

// ErrUntrusted means that agent or broker rejects the other's certificate. It comes together with
// ErrUnreachable, but a retry helps only after a certificate was replaced.
var ErrUntrusted = errors.New("certificate not accepted")
