package inbox

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
)

// Handler receives the messages of other clusters. It must verify who signed a message, because
// from is only the sender that the broker names. An error of Deliver is logged and does not cause
// another delivery: the sender repeats its message until it gets an answer.
type Handler interface {
	Deliver(ctx context.Context, from string, body []byte) error
}

// Messages receives messages from other clusters while it runs.
type Messages struct {
	messenger transport.Messenger
	handler   Handler
	options   Options
}

// NewMessages returns a receiver that passes messages to handler.
func NewMessages(messenger transport.Messenger, handler Handler, options Options) *Messages {
	options.setDefaults()
	return &Messages{messenger: messenger, handler: handler, options: options}
}

// Start receives messages until ctx ends.
func (m *Messages) Start(ctx context.Context) error {
	p := poller{
		ask: m.fetchAnswer, interval: m.options.Interval, clock: m.options.Clock,
		log: log.FromContext(ctx).WithName("inbox").WithValues("of", "messages"),
	}
	return p.pollUntilDone(ctx)
}

func (m *Messages) fetchAnswer(ctx context.Context, cursor string) (answer, error) {
	list, err := m.messenger.ReceiveMessages(ctx, cursor, longPoll)
	if err != nil {
		return answer{}, err
	}
	for i := range list.Messages {
		msg := &list.Messages[i]
		if err := m.handler.Deliver(ctx, msg.From, msg.Body); err != nil {
			log.FromContext(ctx).Info("a message was refused", "from", msg.From, "slot", msg.Slot, "reason", err.Error())
		}
	}
	return answer{cursor: list.Cursor, items: len(list.Messages)}, nil
}
