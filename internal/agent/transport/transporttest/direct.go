package transporttest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Direct is a transport to a Broker in the same process, for the conformance suite and for
// tests of a transport's users. They script the Broker through it.
type Direct struct {
	*Broker

	clusterID string
	closed    context.Context
	close     context.CancelFunc
}

var _ transport.Transport = (*Direct)(nil)

// Connect returns the transport of clusterID.
func Connect(broker *Broker, clusterID string) *Direct {
	closed, closeNow := context.WithCancel(context.Background())
	return &Direct{Broker: broker, clusterID: clusterID, closed: closed, close: closeNow}
}

// New returns the transport of clusterID to a Broker of its own.
func New(clusterID string) *Direct { return Connect(NewBroker(), clusterID) }

// Instruct adds an instruction for the transport's cluster.
func (d *Direct) Instruct(instruction v1.Instruction) { d.Broker.Instruct(d.clusterID, instruction) }

// Post adds a message to the transport's cluster.
func (d *Direct) Post(m v1.Message) { d.Broker.Post(d.clusterID, m) }

// Close ends calls in flight; later ones fail.
func (d *Direct) Close() error {
	d.close()
	return nil
}

// Ping asks the broker.
func (d *Direct) Ping(ctx context.Context) (*v1.Pong, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.Pong, error) { return d.Broker.Ping(ctx, d.clusterID) })
}

// PublishAdvertisement asks the broker.
func (d *Direct) PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	return dispatchCall(ctx, d, adv.ClusterID, func(ctx context.Context) (*v1.AdvertisementReceipt, error) {
		return d.Broker.PublishAdvertisement(ctx, d.clusterID, adv)
	})
}

// RequestReservation asks the broker.
func (d *Direct) RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, req.RequesterID, func(ctx context.Context) (*v1.Reservation, error) {
		return d.Broker.RequestReservation(ctx, d.clusterID, key, req)
	})
}

// ChangeReservation asks the broker.
func (d *Direct) ChangeReservation(ctx context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.Reservation, error) {
		return d.Broker.ChangeReservation(ctx, d.clusterID, key, change)
	})
}

// ReleaseReservation asks the broker.
func (d *Direct) ReleaseReservation(ctx context.Context, nameOrKey string) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.Reservation, error) {
		return d.Broker.ReleaseReservation(ctx, d.clusterID, nameOrKey)
	})
}

// ReportStatus asks the broker.
func (d *Direct) ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error {
	_, err := dispatchCall(ctx, d, "", func(ctx context.Context) (*struct{}, error) {
		return nil, d.Broker.ReportStatus(ctx, d.clusterID, reservation, report)
	})
	return err
}

// FetchInstructions asks the broker.
func (d *Direct) FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.InstructionList, error) {
		return d.Broker.FetchInstructions(ctx, d.clusterID, cursor, wait)
	})
}

// AnnounceHoldings asks the broker.
func (d *Direct) AnnounceHoldings(ctx context.Context, h *v1.Holdings) error {
	_, err := dispatchCall(ctx, d, "", func(ctx context.Context) (*struct{}, error) {
		return nil, d.Broker.AnnounceHoldings(ctx, d.clusterID, h)
	})
	return err
}

// SendMessage asks the broker.
func (d *Direct) SendMessage(ctx context.Context, msg *v1.Message) error {
	_, err := dispatchCall(ctx, d, msg.From, func(ctx context.Context) (*struct{}, error) {
		return nil, d.Broker.SendMessage(ctx, d.clusterID, msg)
	})
	return err
}

// ReceiveMessages asks the broker.
func (d *Direct) ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.MessageList, error) {
		return d.Broker.ReceiveMessages(ctx, d.clusterID, cursor, wait)
	})
}

// dispatchCall applies the server's rules. named is the sender that the body names, "" if none.
func dispatchCall[T any](ctx context.Context, d *Direct, named string, call func(context.Context) (*T, error)) (*T, error) {
	if d.closed.Err() != nil {
		return nil, fmt.Errorf("transport is closed: %w", net.ErrClosed)
	}
	if named != "" && named != d.clusterID {
		return nil, fault.New(fault.Forbidden, "body is from cluster %q, the caller is %q", named, d.clusterID)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.closed, cancel)()
	answer, err := call(ctx)
	if errors.Is(err, transport.ErrUnreachable) {
		return nil, err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errDown) {
		return nil, fmt.Errorf("%w: %w", transport.ErrUnreachable, err)
	}
	if err == nil || ctx.Err() != nil {
		return answer, err
	}
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		f = fault.New(fault.Internal, "the broker's log says more")
	}
	if f.Temporary() {
		return nil, fmt.Errorf("%w: %w", transport.ErrUnreachable, f)
	}
	return nil, f
}
