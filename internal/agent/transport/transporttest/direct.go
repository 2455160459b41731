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
// tests of a transport's users.
type Direct struct {
	broker    *Broker
	clusterID string
	closed    context.Context
	close     context.CancelFunc
}

var _ transport.Transport = (*Direct)(nil)

// Connect returns the transport of clusterID.
func Connect(broker *Broker, clusterID string) *Direct {
	closed, closeNow := context.WithCancel(context.Background())
	return &Direct{broker: broker, clusterID: clusterID, closed: closed, close: closeNow}
}

// Close ends calls in flight; later ones fail.
func (d *Direct) Close() error {
	d.close()
	return nil
}

// Ping asks the broker.
func (d *Direct) Ping(ctx context.Context) (*v1.Pong, error) {
	return dispatchCall(ctx, d, "", d.broker.Ping)
}

// PublishAdvertisement asks the broker.
func (d *Direct) PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	return dispatchCall(ctx, d, adv.ClusterID, func(ctx context.Context) (*v1.AdvertisementReceipt, error) {
		return d.broker.PublishAdvertisement(ctx, d.clusterID, adv)
	})
}

// RequestReservation asks the broker.
func (d *Direct) RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, req.RequesterID, func(ctx context.Context) (*v1.Reservation, error) {
		return d.broker.RequestReservation(ctx, d.clusterID, key, req)
	})
}

// ChangeReservation asks the broker.
func (d *Direct) ChangeReservation(ctx context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.Reservation, error) {
		return d.broker.ChangeReservation(ctx, d.clusterID, key, change)
	})
}

// ReleaseReservation asks the broker.
func (d *Direct) ReleaseReservation(ctx context.Context, nameOrKey string) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.Reservation, error) {
		return d.broker.ReleaseReservation(ctx, d.clusterID, nameOrKey)
	})
}

// ReportStatus asks the broker.
func (d *Direct) ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error {
	_, err := dispatchCall(ctx, d, "", func(ctx context.Context) (*struct{}, error) {
		return nil, d.broker.ReportStatus(ctx, d.clusterID, reservation, report)
	})
	return err
}

// FetchInstructions asks the broker.
func (d *Direct) FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.InstructionList, error) {
		return d.broker.FetchInstructions(ctx, d.clusterID, cursor, wait)
	})
}

// AnnounceHoldings asks the broker.
func (d *Direct) AnnounceHoldings(ctx context.Context, h *v1.Holdings) error {
	_, err := dispatchCall(ctx, d, "", func(ctx context.Context) (*struct{}, error) {
		return nil, d.broker.AnnounceHoldings(ctx, d.clusterID, h)
	})
	return err
}

// SendMessage asks the broker.
func (d *Direct) SendMessage(ctx context.Context, msg *v1.Message) error {
	_, err := dispatchCall(ctx, d, msg.From, func(ctx context.Context) (*struct{}, error) {
		return nil, d.broker.SendMessage(ctx, d.clusterID, msg)
	})
	return err
}

// ReceiveMessages asks the broker.
func (d *Direct) ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.MessageList, error) {
		return d.broker.ReceiveMessages(ctx, d.clusterID, cursor, wait)
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
	if errors.Is(err, context.DeadlineExceeded) {
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
