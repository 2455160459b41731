package http_test

import (
	"net"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/transport/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Harness {
		s := newSite(t)
		broker := transporttest.NewBroker()
		url := s.serve(t, broker, listen(t))
		return transporttest.Harness{
			Broker: broker,
			Open: func(t *testing.T, clusterID string) transport.Transport {
				return s.connect(t, s.clientDir(t, clusterID), url)
			},
		}
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
