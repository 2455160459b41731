package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
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
	runtest.Check(t, err)
	return l
}

const key = "0b2f7c1e-rome.1"

func TestAnswersOfAllKinds(t *testing.T) {
	problem := func(w nethttp.ResponseWriter, status int, body string) {
		w.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	for name, tc := range map[string]struct {
		// answer receives the number of the attempt, from 1.
		answer      func(w nethttp.ResponseWriter, attempt int32)
		attempts    int32
		reason      fault.Reason
		unreachable bool
		want        string
	}{
		"fields of a newer broker are passed over": {
			answer: func(w nethttp.ResponseWriter, _ int32) {
				_, _ = io.WriteString(w, `{"version":"v9","apiVersion":"v1","journalID":"j","mood":{"good":true}}`)
			},
			attempts: 1,
		},
		"a connection that breaks is tried again": {
			answer: func(w nethttp.ResponseWriter, attempt int32) {
				if attempt == 1 {
					panic(nethttp.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, `{"apiVersion":"v1"}`)
			},
			attempts: 2,
		},
		"connections that keep breaking are left to the caller": {
			answer:   func(nethttp.ResponseWriter, int32) { panic(nethttp.ErrAbortHandler) },
			attempts: 2, unreachable: true,
		},
		"a replica that stops is asked again, because the next one may answer": {
			answer: func(w nethttp.ResponseWriter, attempt int32) {
				if attempt == 1 {
					w.Header().Set("Retry-After", "1")
					problem(w, 503, `{"reason":"Unavailable"}`)
					return
				}
				_, _ = io.WriteString(w, `{"apiVersion":"v1"}`)
			},
			attempts: 2,
		},
		"a broker that is asked too often is left to the caller": {
			answer: func(w nethttp.ResponseWriter, _ int32) {
				w.Header().Set("Retry-After", "1")
				problem(w, 429, `{"reason":"TooManyRequests"}`)
			},
			attempts: 1, unreachable: true, reason: fault.TooManyRequests,
		},
		"a broker that wants time is left alone": {
			answer: func(w nethttp.ResponseWriter, _ int32) {
				w.Header().Set("Retry-After", "60")
				problem(w, 503, `{"reason":"Unavailable","detail":"no journal"}`)
			},
			attempts: 1, unreachable: true, reason: fault.Unavailable, want: "no journal",
		},
		"a refusal is final": {
			answer: func(w nethttp.ResponseWriter, _ int32) {
				problem(w, 422, `{"reason":"IdempotencyKeyReused","detail":"other","mood":1}`)
			},
			attempts: 1, reason: fault.KeyReused, want: "other",
		},
		"a reason of a newer broker is kept": {
			answer:   func(w nethttp.ResponseWriter, _ int32) { problem(w, 409, `{"reason":"Sunday"}`) },
			attempts: 1, reason: "Sunday",
		},
		"a defect is left to the caller": {
			answer:   func(w nethttp.ResponseWriter, _ int32) { problem(w, 500, `{"reason":"Internal"}`) },
			attempts: 1, unreachable: true, reason: fault.Internal,
		},
		"something else than a broker is unreachable": {
			answer:   func(w nethttp.ResponseWriter, _ int32) { nethttp.Error(w, "nginx", 404) },
			attempts: 1, unreachable: true, want: "--broker-url",
		},
		"a problem document without reason is not a broker's": {
			answer:   func(w nethttp.ResponseWriter, _ int32) { problem(w, 400, `{"title":"Bad Request"}`) },
			attempts: 1, unreachable: true, want: "--broker-url",
		},
		"a redirect is not followed": {
			answer: func(w nethttp.ResponseWriter, _ int32) {
				w.Header().Set("Location", "https://elsewhere.example/")
				w.WriteHeader(nethttp.StatusFound)
			},
			attempts: 1, unreachable: true, want: "302",
		},
		"an answer that is no JSON is unreachable": {
			answer:   func(w nethttp.ResponseWriter, _ int32) { _, _ = io.WriteString(w, "<html>") },
			attempts: 1, unreachable: true, want: "cannot decode",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			var attempts atomic.Int32
			url := s.stub(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
				if got := r.UserAgent(); got != "agent/test" {
					t.Errorf("user agent %q", got)
				}
				tc.answer(w, attempts.Add(1))
			})
			pong, err := s.connect(t, s.clientDir(t, "rome"), url).Ping(t.Context())
			if got := attempts.Load(); got != tc.attempts {
				t.Errorf("%d attempts; want %d", got, tc.attempts)
			}
			failing := tc.unreachable || tc.reason != ""
			if (err != nil) != failing || (pong == nil) != failing {
				t.Fatalf("Ping = %+v, %v; want an error: %v", pong, err, failing)
			}
			if err == nil {
				return
			}
			if errors.Is(err, transport.ErrUnreachable) != tc.unreachable || fault.ReasonOf(err) != tc.reason || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Ping: %v; want unreachable %v, reason %q, saying %q", err, tc.unreachable, tc.reason, tc.want)
			}
			if tc.unreachable && !strings.Contains(err.Error(), url) {
				t.Errorf("error %q does not name %s", err, url)
			}
		})
	}
}

// A connection without answers may be dead.
func TestCallsAfterATimeoutConnectAnew(t *testing.T) {
	s := newSite(t)
	var silent sync.Map
	url := s.stub(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/api/v1/instructions" {
			silent.Store(r.RemoteAddr, true)
		}
		if _, dead := silent.Load(r.RemoteAddr); dead {
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, `{"apiVersion":"v1"}`)
	})
	tr := s.connect(t, s.clientDir(t, "rome"), url)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := tr.FetchInstructions(ctx, "", 0); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("FetchInstructions over a silent connection: %v; want it unreachable", err)
	}
	if _, err := tr.Ping(t.Context()); err != nil {
		t.Errorf("Ping after that: %v; want an answer over another connection", err)
	}
}

func TestRetriesSendTheBodyAgain(t *testing.T) {
	s := newSite(t)
	var bodies sync.Map
	url := s.stub(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Idempotency-Key") != key {
			t.Errorf("key %q, body: %v", r.Header.Get("Idempotency-Key"), err)
		}
		if _, repeated := bodies.LoadOrStore(string(body), true); !repeated {
			w.WriteHeader(nethttp.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, `{"name":"res-0000000001"}`)
	})
	tr := s.connect(t, s.clientDir(t, "rome"), url)
	r, err := tr.RequestReservation(t.Context(), key, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1"}})
	if err != nil || r.Name != "res-0000000001" {
		t.Errorf("RequestReservation = %+v, %v; want the reservation at the second attempt", r, err)
	}
}

func TestBrokersThatAreNotTheBrokerAreNotAsked(t *testing.T) {
	s, other := newSite(t), newSite(t)
	for name, tc := range map[string]struct {
		server *site
		says   string
	}{
		"server of another CA":                      {&site{s.agentsCA, other.serverCA, s.serverIP}, "ca.crt of --broker-cert-path"},
		"server with another name":                  {&site{s.agentsCA, s.serverCA, net.IPv4(127, 0, 0, 2)}, "certificates.dnsNames"},
		"server that does not know this agent's CA": {&site{other.agentsCA, s.serverCA, s.serverIP}, "agents-ca.crt holds another CA"},
		"nobody": {nil, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			broker, l := transporttest.NewBroker(), listen(t)
			url := "https://" + l.Addr().String()
			if tc.server == nil {
				_ = l.Close() // the port is free again
			} else {
				tc.server.serve(t, broker, l)
			}
			_, err := s.connect(t, s.clientDir(t, "rome"), url).Ping(t.Context())
			if !errors.Is(err, transport.ErrUnreachable) || !strings.Contains(err.Error(), url) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("Ping: %v; want it unreachable at %s, saying %q", err, url, tc.says)
			}
			if n := len(broker.Calls(transporttest.Ping)); n != 0 {
				t.Errorf("%d calls reached the broker", n)
			}
		})
	}
}

func TestExpiredCertificateIsReportedBeforeSending(t *testing.T) {
	s := newSite(t)
	broker := transporttest.NewBroker()
	url := s.serve(t, broker, listen(t))
	dir := s.clientDir(t, "rome")
	clock := clocktesting.NewFakePassiveClock(time.Now())
	files, err := pki.OpenFiles(dir, clock.Now)
	runtest.Check(t, err)
	tr := s.connectFiles(t, files, url)
	if _, err := tr.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(2 * 365 * 24 * time.Hour))
	_, err = tr.Ping(t.Context())
	if !errors.Is(err, transport.ErrUnreachable) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("Ping: %v; want it to name the file in %s", err, dir)
	}
	if n := len(broker.Calls(transporttest.Ping)); n != 1 {
		t.Errorf("%d calls; want the one before", n)
	}
}

func TestReplicasStandInForEachOther(t *testing.T) {
	s := newSite(t)
	broker := transporttest.NewBroker() // both replicas share its state
	first, stopFirst := s.start(t, broker, listen(t))
	second, stopSecond := s.start(t, broker, listen(t))
	tr := s.connect(t, s.clientDir(t, "rome"), first, second)

	stopLoad := underLoad(t, tr)
	stopFirst()
	runtest.Check(t, broker.AwaitCalls(t.Context(), transporttest.SendMessage, len(broker.Calls(transporttest.SendMessage))+20))
	stopLoad()
	stopSecond()
	if _, err := tr.Ping(t.Context()); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("Ping without a replica: %v; want it unreachable", err)
	}
}

func TestPollsMoveToAnotherReplicaWhenTheirsStops(t *testing.T) {
	s := newSite(t)
	broker := transporttest.NewBroker()
	first, stopFirst := s.start(t, broker, listen(t))
	second := s.serve(t, broker, listen(t))
	tr := s.connect(t, s.clientDir(t, "rome"), first, second)
	poll := make(chan error, 1)
	go func() {
		_, err := tr.FetchInstructions(t.Context(), "", time.Minute)
		poll <- err
	}()
	runtest.Check(t, broker.AwaitCalls(t.Context(), transporttest.FetchInstructions, 1))
	stopFirst()
	runtest.Check(t, broker.AwaitCalls(t.Context(), transporttest.FetchInstructions, 2))
	broker.Instruct("rome", v1.Instruction{Reservation: "res-0000000001", Role: v1.InstructionRoleConsumer, State: v1.InstructionStateHold})
	if err := <-poll; err != nil {
		t.Errorf("poll: %v", err)
	}
}

func TestHangingBrokerIsUnreachableInTime(t *testing.T) {
	s := newSite(t)
	url := s.stub(t, func(_ nethttp.ResponseWriter, r *nethttp.Request) { <-r.Context().Done() })
	tr := s.connect(t, s.clientDir(t, "rome"), url)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := tr.Ping(ctx); !errors.Is(err, transport.ErrUnreachable) || !strings.Contains(err.Error(), url) {
		t.Errorf("Ping: %v; want it unreachable at %s", err, url)
	}
}

// underLoad sends messages from four goroutines until stop is called. No call may fail.
func underLoad(t *testing.T, tr transport.Messenger) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	for i := range 4 {
		senders.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				msg := &v1.Message{To: "paris", Slot: fmt.Sprintf("%d", i), Body: []byte("x")}
				if err := tr.SendMessage(t.Context(), msg); err != nil {
					t.Errorf("message %d of sender %d: %v", n, i, err)
					return
				}
			}
		})
	}
	return func() { cancel(); senders.Wait() }
}
