package server

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// waiting is a broker without any news: every poll waits.
type waiting struct {
	*transporttest.Broker
	// polls gets an element for each poll that waits.
	polls chan string
}

func (w waiting) FetchInstructions(ctx context.Context, clusterID, _ string, _ time.Duration) (*v1.InstructionList, error) {
	w.polls <- clusterID
	<-ctx.Done()
	return &v1.InstructionList{}, nil
}

func deny(ids ...string) access.Policy {
	return access.PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: ids})
}

// agent keeps one connection with a waiting poll on it.
type agent struct {
	client *http.Client
	// polled gets the outcome of the poll.
	polled chan string
}

func (s *site) pollingAgent(t *testing.T, clusterID, protocol string) agent {
	t.Helper()
	a := agent{client: s.client(t, clusterID), polled: make(chan string, 1)}
	a.client.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "h2"
	if got := s.send(t, a.client, http.MethodGet, "/api/v1/ping", ""); got.StatusCode != http.StatusOK {
		t.Fatalf("ping of %s: %s %s", clusterID, got.Status, got.body)
	}
	go func() {
		got, err := s.try(t, a.client, http.MethodGet, "/api/v1/instructions?wait=60", "")
		if err != nil {
			a.polled <- err.Error()
			return
		}
		a.polled <- fmt.Sprint(got.StatusCode, " ", got.problem.Reason)
	}()
	return a
}

// awaitClosed waits until the server has closed every connection of the cluster.
func (s *site) awaitClosed(t *testing.T, clusterID string) {
	t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		open := 0
		s.connections.mu.Lock()
		for _, c := range s.connections.open {
			c.mu.Lock()
			if c.clusterID == clusterID {
				open++
			}
			c.mu.Unlock()
		}
		s.connections.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections of %s are still open", open, clusterID)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestDeniedClusterIsCutOffWithinTwoSeconds denies a cluster whose polls would never end. On an idle machine only
// denialGrace delays the end of its connections.
func TestDeniedClusterIsCutOffWithinTwoSeconds(t *testing.T) {
	if denialGrace > time.Second {
		t.Errorf("the connections of a denied cluster stay open for %s, want at most 1s", denialGrace)
	}
	const each = 20
	broker := waiting{transporttest.NewBroker(), make(chan string, 2*each)}
	gate := access.NewGate()
	gate.Set(access.Policy{})
	s := newSite(t, broker, func(s *Server) { s.opts.Access = gate })

	var rome, paris []agent
	for i := range each {
		protocol := []string{"h2", "http/1.1"}[i%2]
		rome = append(rome, s.pollingAgent(t, "rome", protocol))
		paris = append(paris, s.pollingAgent(t, "paris", protocol))
	}
	idle := s.client(t, "rome")
	s.send(t, idle, http.MethodGet, "/api/v1/ping", "")
	for range 2 * each {
		<-broker.polls
	}

	gate.Set(deny("rome"))
	for i, a := range rome {
		select {
		case got := <-a.polled:
			if want := "403 ClusterDenied"; got != want {
				t.Errorf("poll %d: %s, want %s", i, got, want)
			}
		case <-time.After(hangLimit):
			t.Fatalf("poll %d still waits", i)
		}
	}
	s.awaitClosed(t, "rome")
	for _, client := range []*http.Client{rome[0].client, rome[1].client, idle} {
		if got := s.send(t, client, http.MethodGet, "/api/v1/ping", ""); got.problem.Reason != string(fault.ClusterDenied) {
			t.Errorf("new request of the denied cluster: %s %s", got.Status, got.body)
		}
	}
	for i, a := range paris {
		select {
		case got := <-a.polled:
			t.Errorf("poll %d of an approved cluster ended: %s", i, got)
		default:
		}
	}
	gate.Set(access.Policy{})
	if got := s.send(t, idle, http.MethodGet, "/api/v1/ping", ""); got.StatusCode != http.StatusOK {
		t.Errorf("admitted again: %s %s", got.Status, got.body)
	}
}

func TestClustersAreRefusedUntilAccessListsAreKnown(t *testing.T) {
	gate := access.NewGate()
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.opts.Access = gate })
	got := s.send(t, s.client(t, "rome"), http.MethodGet, "/api/v1/ping", "")
	if got.problem.Reason != string(fault.Unavailable) || got.Header.Get("Retry-After") != "1" {
		t.Errorf("%s %s", got.Status, got.body)
	}
}

func TestClosedConnectionsAreForgotten(t *testing.T) {
	gate := access.NewGate()
	gate.Set(access.Policy{})
	s := newSite(t, transporttest.NewBroker(), func(s *Server) { s.opts.Access = gate })
	client := s.client(t, "rome")
	s.send(t, client, http.MethodGet, "/api/v1/ping", "")
	client.CloseIdleConnections()
	s.awaitClosed(t, "rome")
}

// TestCertificateIsEnoughWithoutAccessLists checks that without access lists a valid certificate
// suffices.
func TestCertificateIsEnoughWithoutAccessLists(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	if got := s.send(t, s.client(t, "rome"), http.MethodGet, "/api/v1/ping", ""); got.StatusCode != http.StatusOK {
		t.Errorf("%s %s", got.Status, got.body)
	}
}
