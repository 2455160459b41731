package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
)

const (
	// providers is the number of agents that poll for instructions. They acknowledge each instruction at once.
	providers = 20
	// askers is the number of clusters that request reservations. Each cluster makes one request at a time.
	askers = 4
)

// delivery measures how long after the answer to the requester the provider's agent has its instruction. It uses the
// real broker.
var delivery = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	broker, err := at.startBroker(ctx, "broker", false)
	if err != nil {
		return err
	}
	agents, err := at.connectAll(providers, "provider", broker.url)
	if err != nil {
		return err
	}
	clusters, err := at.connectAll(askers, "client", broker.url)
	if err != nil {
		return err
	}
	arrivals := &arrivals{at: map[string]time.Time{}}
	polling, stop := context.WithCancel(ctx)
	defer stop()
	var agencies sync.WaitGroup
	for i, agent := range agents {
		if _, err := agent.PublishAdvertisement(ctx, advertisementOf(fmt.Sprintf("provider-%d", i), 1)); err != nil {
			return err
		}
		agencies.Go(func() { arrivals.follow(polling, agent) })
	}
	asked, answered, err := requestAll(ctx, clusters, s.grants)
	if err == nil {
		err = awaitCondition(ctx, waitTimeout, func(context.Context) (bool, error) { return arrivals.count() == len(answered), nil })
	}
	stop()
	agencies.Wait()
	if err != nil {
		return errors.Join(fmt.Errorf("%d of %d instructions arrived", arrivals.count(), s.grants), err, arrivals.failed)
	}
	var fromRequest, fromAnswer []time.Duration
	for name, when := range arrivals.at {
		fromRequest = append(fromRequest, when.Sub(asked[name]))
		fromAnswer = append(fromAnswer, max(0, when.Sub(answered[name])))
	}
	t.row("instruction at its provider after the grant's answer, p99", milliseconds(quantile(fromAnswer, .99)), atMost(25, 10, "ms"),
		"%d grants; after the request was sent p50 %.1f ms, p99 %.1f ms", s.grants,
		milliseconds(quantile(fromRequest, .5)), milliseconds(quantile(fromRequest, .99)))
	return nil
})

// requestAll lets clusters request reservations. Each cluster makes one request at a time. It returns, for each
// reservation by name, when it was requested and when the answer came.
func requestAll(ctx context.Context, clusters []*httptransport.Transport, reservations int) (asked, answered map[string]time.Time, err error) {
	var (
		mu     sync.Mutex
		asking sync.WaitGroup
		failed = make([]error, len(clusters))
	)
	asked, answered = map[string]time.Time{}, map[string]time.Time{}
	for c, cluster := range clusters {
		asking.Go(func() {
			for i := c; i < reservations && failed[c] == nil; i += len(clusters) {
				began := time.Now()
				r, err := cluster.RequestReservation(ctx, fmt.Sprintf("request-%d", i), oneCPU())
				ended := time.Now()
				if err != nil {
					failed[c] = err
					return
				}
				mu.Lock()
				asked[r.Name], answered[r.Name] = began, ended
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return asked, answered, errors.Join(failed...)
}

// arrivals records when each reservation first appeared.
type arrivals struct {
	mu     sync.Mutex
	at     map[string]time.Time
	failed error
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

// note records the time at which a reservation appeared. It reports whether this was the first time.
func (a *arrivals) note(name string, when time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.at[name]; known {
		return false
	}
	a.at[name] = when
	return true
}

// follow acts as an agent: it polls for instructions and acknowledges them.
func (a *arrivals) follow(ctx context.Context, agent *httptransport.Transport) {
	cursor := ""
	for ctx.Err() == nil {
		list, err := agent.FetchInstructions(ctx, cursor, time.Minute)
		when := time.Now()
		if err == nil {
			cursor, err = list.Cursor, a.acknowledge(ctx, agent, list.Instructions, when)
		}
		if err != nil && ctx.Err() == nil {
			a.mu.Lock()
			a.failed = err
			a.mu.Unlock()
			return
		}
	}
}

func (a *arrivals) acknowledge(ctx context.Context, agent *httptransport.Transport, given []v1.Instruction, when time.Time) error {
	for _, in := range given {
		if !a.note(in.Reservation, when) {
			continue
		}
		if err := agent.ReportStatus(ctx, in.Reservation, &v1.StatusReport{
			Placement: in.Placement, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateAcknowledged,
		}); err != nil {
			return err
		}
	}
	return nil
}
