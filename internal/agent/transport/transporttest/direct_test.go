package transporttest_test

import (
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
)

func TestDirect(t *testing.T) {
	transporttest.Run(t, func(*testing.T) transporttest.Harness {
		broker := transporttest.NewBroker()
		return transporttest.Harness{
			Broker: broker,
			Open: func(_ *testing.T, clusterID string) transport.Transport {
				return transporttest.Connect(broker, clusterID)
			},
		}
	})
}
