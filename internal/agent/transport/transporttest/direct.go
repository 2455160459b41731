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

// Direct is a transport to a Broker in the same process. It serves to check the conformance suite,
// and as a transport for other tests. With the embedded Broker, tests control the answers.
type Direct struct {
	*Broker

	clusterID string
	closed    context.Context
	close     context.CancelFunc
}

var _ transport.Transport = (*Direct)(nil)

// Connect returns a transport to an existing broker for a cluster.
func Connect(broker *Broker, clusterID string) *Direct {
	closed, closeNow := context.WithCancel(context.Background())
	return &Direct{Broker: broker, clusterID: clusterID, closed: closed, close: closeNow}
}

// New returns a transport to a new Broker for a cluster.
func New(clusterID string) *Direct { return Connect(NewBroker(), clusterID) }

// Instruct adds an instruction for the transport's cluster.
func (d *Direct) Instruct(instruction v1.Instruction) { d.Broker.Instruct(d.clusterID, instruction) }

// Post adds a message for the transport's cluster.
func (d *Direct) Post(m v1.Message) { d.Broker.Post(d.clusterID, m) }

// Close ends all calls. Later calls fail.
func (d *Direct) Close() error {
	d.close()
	return nil
}

// Ping calls the method of the Broker.
func (d *Direct) Ping(ctx context.Context) (*v1.Pong, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.Pong, error) { return d.Broker.Ping(ctx, d.clusterID) })
}

// PublishAdvertisement calls the method of the Broker.
func (d *Direct) PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	return dispatchCall(ctx, d, adv.ClusterID, func(ctx context.Context) (*v1.AdvertisementReceipt, error) {
		return d.Broker.PublishAdvertisement(ctx, d.clusterID, adv)
	})
}

// RequestReservation calls the method of the Broker.
func (d *Direct) RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, req.RequesterID, func(ctx context.Context) (*v1.Reservation, error) {
		return d.Broker.RequestReservation(ctx, d.clusterID, key, req)
	})
}

// ChangeReservation calls the method of the Broker.
func (d *Direct) ChangeReservation(ctx context.Context, key string, change *v1.ReservationChange) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.Reservation, error) {
		return d.Broker.ChangeReservation(ctx, d.clusterID, key, change)
	})
}

// ReleaseReservation calls the method of the Broker.
func (d *Direct) ReleaseReservation(ctx context.Context, nameOrKey, user string) (*v1.Reservation, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.Reservation, error) {
		return d.Broker.ReleaseReservation(ctx, d.clusterID, nameOrKey, user)
	})
}

// RequestQuote calls the method of the Broker.
func (d *Direct) RequestQuote(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	return dispatchCall(ctx, d, req.RequesterID, func(ctx context.Context) (*v1.Quote, error) {
		return d.Broker.RequestQuote(ctx, d.clusterID, key, req)
	})
}

// ReleaseQuote calls the method of the Broker.
func (d *Direct) ReleaseQuote(ctx context.Context, nameOrKey string) error {
	_, err := dispatchCall(ctx, d, "", func(ctx context.Context) (*struct{}, error) {
		return nil, d.Broker.ReleaseQuote(ctx, d.clusterID, nameOrKey)
	})
	return err
}

// ReportStatus calls the method of the Broker.
func (d *Direct) ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error {
	_, err := dispatchCall(ctx, d, "", func(ctx context.Context) (*struct{}, error) {
		return nil, d.Broker.ReportStatus(ctx, d.clusterID, reservation, report)
	})
	return err
}

// FetchInstructions calls the method of the Broker.
func (d *Direct) FetchInstructions(ctx context.Context, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.InstructionList, error) {
		return d.Broker.FetchInstructions(ctx, d.clusterID, cursor, wait)
	})
}

// AnnounceHoldings calls the method of the Broker.
func (d *Direct) AnnounceHoldings(ctx context.Context, h *v1.Holdings) error {
	_, err := dispatchCall(ctx, d, "", func(ctx context.Context) (*struct{}, error) {
		return nil, d.Broker.AnnounceHoldings(ctx, d.clusterID, h)
	})
	return err
}

// SendMessage calls the method of the Broker.
func (d *Direct) SendMessage(ctx context.Context, msg *v1.Message) error {
	_, err := dispatchCall(ctx, d, msg.From, func(ctx context.Context) (*struct{}, error) {
		return nil, d.Broker.SendMessage(ctx, d.clusterID, msg)
	})
	return err
}

// ReceiveMessages calls the method of the Broker.
func (d *Direct) ReceiveMessages(ctx context.Context, cursor string, wait time.Duration) (*v1.MessageList, error) {
	return dispatchCall(ctx, d, "", func(ctx context.Context) (*v1.MessageList, error) {
		return d.Broker.ReceiveMessages(ctx, d.clusterID, cursor, wait)
	})
}

// dispatchCall calls the broker and converts errors as the REST server and a transport do. named is
// the cluster that the body names as its sender, "" if the body names none. dispatchCall refuses
// the call if named is another cluster than the caller's.
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
