package http_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	leafRotations = 20
	caRotations   = 3
	// callsBetween is the minimum number of messages that each agent sends between two changes
	// of files. The loops never pause, so any machine reaches more than 50 calls a second.
	callsBetween = 3
)

// All certificates are replaced twenty times and both CAs three times, each time with a period
// in which both roots are trusted. No request fails meanwhile, and polls that began before the
// first change end normally.
func TestRotationUnderLoadLosesNoRequest(t *testing.T) {
	r := newRotation(t, "rome", "paris", "berlin", "madrid")
	clients := map[string]*http.Transport{}
	for cluster, p := range r.agents {
		clients[cluster] = r.connect(t, p)
	}
	// Each client keeps one poll without news open from the first certificate on.
	polls := make(chan error, len(clients))
	for _, client := range clients {
		go func() {
			list, err := client.FetchInstructions(t.Context(), "", time.Minute)
			if err == nil && len(list.Instructions) != 1 {
				err = fmt.Errorf("instructions %+v", list.Instructions)
			}
			polls <- err
		}()
	}
	runtest.Check(t, r.served.AwaitCalls(t.Context(), transporttest.FetchInstructions, len(clients)))

	begin := time.Now()
	stop, failed := underLoadOf(t, clients)
	for range leafRotations {
		r.issue(t)
		r.settle(t, failed)
	}
	for range caRotations {
		r.introduceCAs(t)
		r.settle(t, failed)
		r.issue(t)
		r.settle(t, failed)
		r.retireCAs(t)
		r.settle(t, failed)
	}
	stop()
	calls := len(r.served.Calls(transporttest.SendMessage)) + len(r.served.Calls(transporttest.Ping))
	took := time.Since(begin)
	t.Logf("%d certificates of servers and agents, %d pairs of CAs: %d requests in %s, %.0f a second, %d failed",
		leafRotations+caRotations, caRotations, calls, took.Round(time.Millisecond), float64(calls)/took.Seconds(), failed.Load())
	if least := (leafRotations + 3*caRotations) * len(clients) * callsBetween; calls < least || failed.Load() > 0 {
		t.Errorf("%d requests and %d failed, want at least %d and none", calls, failed.Load(), least)
	}
	for cluster := range clients {
		r.served.Instruct(cluster, v1.Instruction{Reservation: "res-0000000001", Role: v1.InstructionRoleConsumer, State: v1.InstructionStateHold})
	}
	for range clients {
		if err := <-polls; err != nil {
			t.Errorf("poll over the first certificate: %v", err)
		}
	}
}

// rotation is a broker and its agents, with the current CAs.
type rotation struct {
	served *transporttest.Broker
	url    string
	broker *party
	agents map[string]*party
	clock  *clocktesting.FakePassiveClock

	serversCA, agentsCA *pkitest.Authority
	// otherServersCA and otherAgentsCA are also trusted while a CA is rotated.
	otherServersCA, otherAgentsCA *pkitest.Authority
}

// party is the broker or an agent, with its certificate.
type party struct {
	dir     string
	cluster string
	pair    pki.KeyPair
}

func newRotation(t *testing.T, clusters ...string) *rotation {
	t.Helper()
	r := &rotation{
		served: transporttest.NewBroker(), broker: &party{dir: t.TempDir()}, agents: map[string]*party{},
		clock:     clocktesting.NewFakePassiveClock(time.Now()),
		serversCA: newCA(t), agentsCA: newCA(t),
	}
	for _, cluster := range clusters {
		r.agents[cluster] = &party{dir: filepath.Join(t.TempDir(), cluster), cluster: cluster}
	}
	r.issue(t)
	r.start(t)
	return r
}

func newCA(t *testing.T) *pkitest.Authority {
	t.Helper()
	return pkitest.New(t, "rotated", time.Now())
}

func (r *rotation) start(t *testing.T) {
	t.Helper()
	listener := listen(t)
	srv, err := server.New(server.Options{
		Listener: listener, CertDir: r.broker.dir, Broker: r.served, Log: logr.Discard(), Clock: r.clock, Rate: 100000, Burst: 100000,
	})
	runtest.Check(t, err)
	runtest.Start(t, srv)
	r.url = "https://" + listener.Addr().String()
}

func (r *rotation) connect(t *testing.T, p *party) *http.Transport {
	t.Helper()
	files, err := pki.OpenFiles(p.dir, r.clock.Now)
	runtest.Check(t, err)
	tr, err := http.New(http.Options{URLs: []string{r.url}, Files: files})
	runtest.Check(t, err)
	t.Cleanup(func() { _ = tr.Close() }) // Close never fails
	return tr
}

// issue gives each party a new key and certificate, one after the other.
func (r *rotation) issue(t *testing.T) {
	t.Helper()
	var err error
	r.broker.pair, err = r.serversCA.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	runtest.Check(t, err)
	for _, p := range r.agents {
		p.pair, err = r.agentsCA.IssueClient(p.cluster, "fluidos.eu")
		runtest.Check(t, err)
	}
	r.save(t)
}

// introduceCAs makes all parties trust new CAs in addition to the signing ones.
func (r *rotation) introduceCAs(t *testing.T) {
	t.Helper()
	r.otherServersCA, r.otherAgentsCA = newCA(t), newCA(t)
	r.save(t)
	// From now on the new CAs sign.
	r.serversCA, r.otherServersCA = r.otherServersCA, r.serversCA
	r.agentsCA, r.otherAgentsCA = r.otherAgentsCA, r.agentsCA
}

// retireCAs ends the trust in the previous CAs.
func (r *rotation) retireCAs(t *testing.T) {
	t.Helper()
	r.otherServersCA, r.otherAgentsCA = nil, nil
	r.save(t)
}

func (r *rotation) save(t *testing.T) {
	t.Helper()
	roots := map[string][]byte{
		pki.CAFile: r.serversCA.CertPEM(), pki.AgentsCAFile: r.agentsCA.CertPEM(),
		pki.CAAdditionalFile: {}, pki.AgentsCAAdditionalFile: {},
	}
	if r.otherServersCA != nil {
		roots[pki.CAAdditionalFile], roots[pki.AgentsCAAdditionalFile] = r.otherServersCA.CertPEM(), r.otherAgentsCA.CertPEM()
	}
	parties := []*party{r.broker}
	for _, p := range r.agents {
		parties = append(parties, p)
	}
	for _, p := range parties {
		roots[pki.CertFile], roots[pki.KeyFile] = p.pair.CertPEM, p.pair.KeyPEM
		runtest.Check(t, pki.Replace(p.dir, roots))
	}
}

// settle waits until every agent has made a call with the current files. Files are reread once
// a second, so it advances the clock by that.
func (r *rotation) settle(t *testing.T, failed *atomic.Int64) {
	t.Helper()
	r.clock.SetTime(r.clock.Now().Add(time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := map[string]int{}
	count := func(counted map[string]int) {
		for _, c := range r.served.Calls(transporttest.SendMessage) {
			counted[c.ClusterID]++
		}
	}
	count(before)
	// A failed agent stops calling, so waiting for its calls would never end.
	for failed.Load() == 0 {
		runtest.Check(t, r.served.AwaitCalls(ctx, transporttest.SendMessage, len(r.served.Calls(transporttest.SendMessage))+1))
		now := map[string]int{}
		count(now)
		behind := false
		for cluster := range r.agents {
			behind = behind || now[cluster] < before[cluster]+callsBetween
		}
		if !behind {
			return
		}
	}
}

// underLoadOf sends messages and pings from all clients, and repeats short polls, until stop is
// called. No call may fail.
func underLoadOf(t *testing.T, clients map[string]*http.Transport) (stop func(), failed *atomic.Int64) {
	failed = new(atomic.Int64)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	run := func(cluster string, ask func() error) {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := ask(); err != nil {
					failed.Add(1)
					t.Errorf("request %d of %s: %v", n, cluster, err)
					return
				}
			}
		})
	}
	for cluster, client := range clients {
		run(cluster, func() error {
			return client.SendMessage(t.Context(), &v1.Message{To: "oslo", Slot: cluster, Body: []byte("x")})
		})
		run(cluster, func() error {
			_, err := client.Ping(t.Context())
			return err
		})
		run(cluster, func() error {
			_, err := client.ReceiveMessages(ctx, "", time.Second)
			if errors.Is(err, context.Canceled) && !errors.Is(err, transport.ErrUnreachable) {
				return nil
			}
			return err
		})
	}
	return func() { cancel(); all.Wait() }, failed
}
