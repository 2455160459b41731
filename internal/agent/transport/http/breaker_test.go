package http

import (
	"context"
	"errors"
	"io"
	nethttp "net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
)

// silent is a broker that does not answer while it is away. It counts the attempts of calls.
type silent struct {
	away   atomic.Bool
	asked  atomic.Int64
	reason error
}

func (s *silent) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	poll := request.URL.Query().Has("wait")
	if !poll {
		s.asked.Add(1)
	}
	if s.away.Load() {
		time.Sleep(50 * time.Millisecond)
		return nil, s.reason
	}
	if poll {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return &nethttp.Response{
		StatusCode: nethttp.StatusOK, Header: nethttp.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(strings.NewReader(`{"clusterID":"rome","apiVersion":"v1"}`)),
	}, nil
}

func (s *silent) Close() {}

func TestBreakerPausesCallsToDeadBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{reason: errors.New("connection refused")}
		s.away.Store(true)
		tr, err := Over(s, "https://broker.example")
		if err != nil {
			t.Fatal(err)
		}
		// A poll is always in flight and does not count as an answer.
		polling, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for polling.Err() == nil {
				_, _ = tr.FetchInstructions(polling, "", time.Minute)
				select {
				case <-polling.Done():
				case <-time.After(time.Minute):
				}
			}
		}()

		for range 2 {
			if _, err := tr.Ping(t.Context()); !errors.Is(err, transport.ErrUnreachable) {
				t.Fatalf("Ping: %v", err)
			}
		}
		began, asked := time.Now(), s.asked.Load()
		for range 1000 {
			_, err := tr.Ping(t.Context())
			if !errors.Is(err, transport.ErrUnreachable) || !strings.Contains(err.Error(), "8 attempts without an answer, the last: connection refused") {
				t.Fatalf("Ping: %v; want it to say why nobody asks", err)
			}
		}
		if took := time.Since(began); took != 0 || s.asked.Load() != asked {
			t.Errorf("1000 calls took %s and asked %d times", took, s.asked.Load()-asked)
		}

		// While the broker stays away, one attempt every two seconds probes it and all other
		// calls fail at once.
		for time.Since(began) < time.Minute {
			_, _ = tr.Ping(t.Context())
			time.Sleep(10 * time.Millisecond)
		}
		if tried := s.asked.Load() - asked; tried < 20 || tried > 30 {
			t.Errorf("asked %d times in a minute", tried)
		}

		s.away.Store(false)
		time.Sleep(pauseTime)
		for range 3 {
			if _, err := tr.Ping(t.Context()); err != nil {
				t.Errorf("the broker is back: %v", err)
			}
		}
		stop()
		synctest.Wait()
	})
}

// The error of a call that fails at once does not claim a timeout, unlike those of the calls
// before.
func TestOpenCircuitDoesNotReportATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{reason: context.DeadlineExceeded}
		s.away.Store(true)
		tr, err := Over(s, "https://broker.example")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, _ = tr.Ping(t.Context())
		}
		_, err = tr.Ping(t.Context())
		if !isPaused(err) || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "within") {
			t.Errorf("Ping: %v", err)
		}
	})
}

// A cancelled call and a missing client certificate say nothing about the broker, so they do not
// open the circuit.
func TestNeutralErrorsLeaveTheCircuitClosed(t *testing.T) {
	for name, reason := range map[string]error{"given up": context.Canceled, "no certificate": errCredentials} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &silent{reason: reason}
				s.away.Store(true)
				tr, err := Over(s, "https://broker.example")
				if err != nil {
					t.Fatal(err)
				}
				for range 5 * tripAfter {
					_, _ = tr.Ping(t.Context())
				}
				s.away.Store(false)
				if _, err := tr.Ping(t.Context()); err != nil {
					t.Errorf("Ping: %v", err)
				}
			})
		})
	}
}
