package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// caller acts as a cluster that makes single calls on one connection. It does not retry.
type caller struct {
	id        string
	api       *v1.Client
	transport *http.Transport
}

func (s *site) caller(id, url string) (*caller, error) {
	pair, err := s.agents.IssueClient(id, "bench.local")
	if err != nil {
		return nil, err
	}
	certificate, err := pair.TLS()
	if err != nil {
		return nil, err
	}
	c := &caller{id: id, transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate}, RootCAs: s.servers.Pool(), MinVersion: tls.VersionTLS13,
		},
	}}
	s.closers = append(s.closers, func() error { c.transport.CloseIdleConnections(); return nil })
	c.api, err = v1.NewClient(url, v1.WithHTTPClient(&http.Client{Transport: c.transport}))
	return c, err
}

// answerOf decodes the answer to a call. It returns an error if the status is not 200.
func answerOf[T any](response *http.Response, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // the body was read or is not needed, so an error does not matter
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.300s", response.Status, body)
	}
	answer := new(T)
	return answer, json.Unmarshal(body, answer)
}

func (c *caller) reserve(ctx context.Context, key string) (*v1.Reservation, error) {
	return answerOf[v1.Reservation](c.api.RequestReservation(ctx, &v1.RequestReservationParams{IdempotencyKey: key}, *oneCPU())) //nolint:bodyclose // answerOf closes it
}

func (c *caller) ping(ctx context.Context) error {
	_, err := answerOf[v1.Pong](c.api.Ping(ctx)) //nolint:bodyclose // answerOf closes it
	return err
}

func (c *caller) advertise(ctx context.Context, sequence int64) error {
	_, err := answerOf[v1.AdvertisementReceipt](c.api.PublishAdvertisement(ctx, *advertisementOf(c.id, sequence))) //nolint:bodyclose // answerOf closes it
	return err
}

const (
	// knockers is how many attempts run at the same time, and knockEvery the interval at
	// which each of them is repeated.
	knockers   = 16
	knockEvery = 80 * time.Millisecond
	// unanswered is how long a call may wait for a broker that does not answer.
	unanswered = 2 * time.Second
)

// knock requests reservations until a broker grants one, and returns the time of the
// grant.
func (s *site) knock(ctx context.Context, url, as string) (time.Time, error) {
	ctx, stop := context.WithTimeout(ctx, waitTimeout)
	defer stop()
	var (
		knocking sync.WaitGroup
		granted  = make(chan time.Time, knockers)
	)
	for i := range knockers {
		c, err := s.caller(fmt.Sprintf("%s-%d", as, i), url)
		if err != nil {
			return time.Time{}, err
		}
		knocking.Go(func() {
			for ctx.Err() == nil {
				// The pauses spread the attempts evenly over the interval.
				sleep(ctx, knockEvery*time.Duration(i+1)/knockers)
				one, cancel := context.WithTimeout(ctx, unanswered)
				_, err := c.reserve(one, fmt.Sprintf("knock-%d", time.Now().UnixNano()))
				cancel()
				if err == nil {
					granted <- time.Now()
					return
				}
				c.transport.CloseIdleConnections()
				sleep(ctx, knockEvery*time.Duration(knockers-i-1)/knockers)
			}
		})
	}
	defer knocking.Wait()
	defer stop()
	select {
	case when := <-granted:
		return when, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("%s grants nothing: %w", url, ctx.Err())
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
