package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// SendMessage implements the server's Broker. It refuses the message if the two
// clusters share no reservation.
func (b *Broker) SendMessage(ctx context.Context, clusterID string, msg *v1.Message) error {
	err := b.commitPlan(ctx, func(s *session) error {
		if !s.ShareReservation(clusterID, msg.To) {
			return fault.New(fault.Forbidden, "cluster %q shares no reservation with %q", clusterID, msg.To)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.mailbox.Put(clusterID, msg); err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerMessageKept)
	return nil
}

// ReceiveMessages implements the server's Broker.
func (b *Broker) ReceiveMessages(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.MessageList, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		list, changed := b.mailbox.Since(clusterID, cursor)
		b.mu.Lock()
		_, err := b.currentSession()
		ended := b.ended
		b.mu.Unlock()
		if err != nil {
			// This replica no longer leads, so senders send their messages to another replica.
			return nil, err
		}
		if len(list.Messages) > 0 {
			return list, nil
		}
		select {
		case <-changed:
		case <-ended:
		case <-ctx.Done():
			return list, nil
		}
	}
}
