// Package transport names what an agent can say to the broker, whatever carries
// it. Controllers depend on these interfaces alone.
package transport

import (
	"context"
	"errors"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// BrokerCommunicator is the conversation every transport carries. All calls can
// be repeated: the broker answers a repetition with the current state.
//
// Errors: ErrUnreachable where the broker was not reached or cannot answer now;
// *fault.Error where it answered no.
type BrokerCommunicator interface {
	// PublishAdvertisement says what this cluster offers.
	PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error)
	// RequestReservation asks for capacity. key makes repetitions harmless.
	RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error)
	// FetchInstructions returns what is new since the cursor, and waits up to
	// wait for something new.
	FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error)
	// Ping says who the broker is.
	Ping(ctx context.Context) (*v1.Pong, error)
	// Close gives connections back.
	Close() error
}

// Releaser gives reservations back.
type Releaser interface {
	// ReleaseReservation ends a reservation by its name or its idempotency key. It
	// returns nil, nil where the broker knew of none; the key is then shut.
	ReleaseReservation(ctx context.Context, nameOrKey string) (*v1.Reservation, error)
}

// Changer changes reservations in place.
type Changer interface {
	// ChangeReservation changes how long a reservation is held that was asked for with
	// a key. change.Generation tells changes that are repeated or overtaken.
	ChangeReservation(ctx context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error)
}

// Quoter asks without taking.
type Quoter interface {
	// RequestQuote returns what a request would be decided to now. Nothing is held, unless
	// req.HoldSeconds asks for it; only then key counts, and one key is one hold.
	RequestQuote(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Quote, error)
	// ReleaseQuote gives back what is held, by the quote's name or its key.
	ReleaseQuote(ctx context.Context, nameOrKey string) error
}

// StatusReporter tells the broker how far this cluster is with a placement.
type StatusReporter interface {
	ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error
}

// Announcer tells the broker what this cluster has.
type Announcer interface {
	// AnnounceHoldings says everything that this cluster provides and consumes.
	AnnounceHoldings(ctx context.Context, h *v1.Holdings) error
}

// Messenger carries signed envelopes to other clusters. Delivery is not durable:
// senders repeat until they are answered.
type Messenger interface {
	SendMessage(ctx context.Context, msg *v1.Message) error
	// ReceiveMessages returns the envelopes newer than the cursor, and waits up to
	// wait for one.
	ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error)
}

// Transport is everything an agent needs of a broker.
type Transport interface {
	BrokerCommunicator
	Releaser
	Changer
	Quoter
	StatusReporter
	Announcer
	Messenger
}

// ErrUnreachable is wrapped by every error that says nothing about what was
// asked: the broker was not reached, or could not answer now. Try again later.
var ErrUnreachable = errors.New("broker unreachable")

// ErrUntrusted is wrapped beside ErrUnreachable where one side does not take the
// other's certificate: waiting alone does not help.
var ErrUntrusted = errors.New("certificate not accepted")
