package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

const (
	// honestClients is the number of members that reserve one after the other. With honestPause between two calls,
	// they stay below every rate limit.
	honestClients = 8
	honestPause   = 40 * time.Millisecond
	// hostileCallers is how many requests the attacker sends at the same time. The requests are large, or need many
	// times their size in memory.
	hostileCallers = 16
	// hostilePause is the pause between two requests of one caller. All callers together exceed the rate limit of a
	// cluster, but leave enough CPU for the measurement.
	hostilePause = 100 * time.Millisecond
	// attackSlices is how many slices each attack lasts, and also the measurement without an attack before it. An
	// attack of a single slice would consist of little but the attacker's first burst.
	attackSlices = 10
	// preparedAdvertisements is the number of different advertisements that the attacker sends.
	preparedAdvertisements = 64
)

// hostile compares how long members wait for answers during an attack by another member, and without it.
var hostile = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	broker, err := at.startBroker(ctx, "broker", false)
	if err != nil {
		return err
	}
	if err := at.lend(ctx, s.lenders); err != nil {
		return err
	}
	members, err := at.connectAll(honestClients, "client", broker.url)
	if err != nil {
		return err
	}
	a, err := at.attacker(broker.url)
	if err != nil {
		return err
	}
	var asked atomic.Int64
	reserve := func(ctx context.Context, client int) error {
		_, err := members[client].RequestReservation(ctx, fmt.Sprintf("request-%d", asked.Add(1)), oneCPU())
		return err
	}
	var calm, busy slice
	for range s.rounds {
		quiet, err := paceSlice(ctx, attackSlices*s.slice, reserve)
		if err != nil {
			return err
		}
		stop := a.begin(ctx)
		under, err := paceSlice(ctx, attackSlices*s.slice, reserve)
		stop()
		if err != nil {
			return err
		}
		calm, busy = mergeSlices(calm, quiet), mergeSlices(busy, under)
	}
	t.row("p99 of others under attack ÷ otherwise", busy.at(.99)/calm.at(.99), atMost(2, 0, ""),
		"%.1f ms ÷ %.1f ms; %d MB of one member in %d requests", busy.at(.99), calm.at(.99), a.sent.Load()>>20, a.requests.Load())
	return nil
})

// paceSlice lets every member work for some time, with pauses between the calls. It measures only the calls, not
// the pauses.
func paceSlice(ctx context.Context, length time.Duration, do work) (slice, error) {
	var (
		working sync.WaitGroup
		took    = make([][]time.Duration, honestClients)
		failed  = make([]error, honestClients)
		began   = time.Now()
	)
	for client := range honestClients {
		working.Go(func() {
			for time.Since(began) < length && failed[client] == nil {
				asked := time.Now()
				failed[client] = do(ctx, client)
				took[client] = append(took[client], time.Since(asked))
				sleep(ctx, honestPause)
			}
		})
	}
	working.Wait()
	out := slice{wall: time.Since(began)}
	for client := range honestClients {
		if failed[client] != nil {
			return out, failed[client]
		}
		out.took = append(out.took, took[client]...)
	}
	return out, nil
}

// attacker is a member that sends expensive requests.
type attacker struct {
	url  string
	http *http.Client
	// The bodies are written before the measurement. A real attacker would write them on another machine.
	advertisements      [][]byte
	brackets, manyEmpty []byte
	sent                atomic.Int64
	// requests is the number of the last request, so that each request gets its own number.
	requests atomic.Int64
}

func (s *site) attacker(url string) (*attacker, error) {
	c, err := s.caller("evil", url)
	if err != nil {
		return nil, err
	}
	a := &attacker{
		url: url, http: &http.Client{Transport: c.transport},
		brackets:  bytes.Repeat([]byte("["), 1<<20),
		manyEmpty: []byte(`{"provides":[],"consumes":[` + strings.Repeat("{},", 1<<16) + "{}]}"),
	}
	for n := range preparedAdvertisements {
		a.advertisements = append(a.advertisements, hostileAdvertisement(int64(n)))
	}
	return a, nil
}

// begin starts the attack. The returned function stops it.
func (a *attacker) begin(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var attacking sync.WaitGroup
	for range hostileCallers {
		attacking.Go(func() {
			for ctx.Err() == nil {
				a.send(ctx)
				sleep(ctx, hostilePause)
			}
		})
	}
	return func() { cancel(); attacking.Wait() }
}

func (a *attacker) send(ctx context.Context) {
	n := a.requests.Add(1)
	method, path, body := http.MethodPost, "/api/v1/holdings", a.brackets
	switch n % 4 {
	case 0:
		path, body = "/api/v1/advertisements", a.advertisements[n/4%preparedAdvertisements]
	case 1:
		method, path, body = http.MethodDelete, fmt.Sprintf("/api/v1/reservations/unknown-%d", n), nil
	case 2:
		body = a.manyEmpty
	}
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(body))
	if err != nil {
		return // the attack goes on
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.http.Do(request)
	if err != nil {
		return // refused before it was sent
	}
	_, _ = io.Copy(io.Discard, response.Body) // the broker may also cut the connection
	_ = response.Body.Close()
	a.sent.Add(int64(len(body)))
}

// hostileAdvertisement returns an advertisement with new resource names and with as many placements as the API
// allows.
func hostileAdvertisement(n int64) []byte {
	adv := advertisementOf("evil", n)
	adv.Capacity, adv.Allocatable = v1.Amounts{"cpu": "1"}, v1.Amounts{"cpu": "1"}
	for i := range 60 {
		name := fmt.Sprintf("evil-%d.example.com/r%d", n, i)
		adv.Capacity[name], adv.Allocatable[name] = "1", "1"
	}
	for i := range 4096 {
		adv.Usage = append(adv.Usage, v1.Usage{Reservation: fmt.Sprintf("res-%010d", n*4096+int64(i)), Placement: 1, Used: v1.Amounts{"cpu": "1m", "memory": "1Mi"}})
	}
	text, err := json.Marshal(adv)
	if err != nil {
		panic(err) // texts and numbers cannot fail
	}
	return text
}
