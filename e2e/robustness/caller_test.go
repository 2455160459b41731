package robustness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// attempt is the timeout of one attempt of a call. It is well below the duration of an election, so that clients try
// both replicas meanwhile.
const attempt = 3 * time.Second

// caller is a cluster that repeats a call with the same key until it has a definite answer. So no outcome is unknown.
type caller struct {
	s    *site
	id   string
	http *http.Client
	urls []string
	next atomic.Int64
	// attempts counts every request that was sent.
	attempts atomic.Int64
}

func (s *site) caller(id string) *caller {
	return &caller{s: s, id: id, http: &http.Client{Transport: s.roundTripper(id)}, urls: s.urls()}
}

// answer is an answer that a broker decided.
type answer struct {
	status int
	body   []byte
}

func (a *answer) read(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("answer %d %.200q: %w", a.status, a.body, err)
	}
	return nil
}

// problem returns the reason of a refusal, or, if the answer is no refusal in JSON, what is wrong with it.
func (a *answer) problem() string {
	var p v1.Problem
	if err := a.read(&p); err != nil {
		return err.Error()
	}
	return p.Reason
}

var errGaveUp = errors.New("no answer that says anything")

// callUntilDecided repeats a call until the broker has decided it. After patience, it returns errGaveUp.
func (c *caller) callUntilDecided(ctx context.Context, method, path, key string, body any) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	for {
		a, err := c.try(ctx, method, path, key, raw, attempt)
		if err == nil && !temporary(a.status) {
			return a, c.checkStatus(method, path, a)
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("%d %.200s", a.status, a.body)
			}
			return nil, fmt.Errorf("%s %s by %s: %w: %w", method, path, c.id, errGaveUp, err)
		case <-time.After(100 * time.Millisecond):
			c.next.Add(1)
		}
	}
}

func temporary(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests
}

// checkStatus records an answer with status 500 or above, which no caller may get, as a defect and returns it as an
// error.
func (c *caller) checkStatus(method, path string, a *answer) error {
	if a.status < http.StatusInternalServerError {
		return nil
	}
	err := fmt.Errorf("%s %s by %s is answered %d %s", method, path, c.id, a.status, a.body)
	c.s.defects.note("%v", err)
	return err
}

func (c *caller) try(ctx context.Context, method, path, key string, body []byte, within time.Duration) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	url := c.urls[int(c.next.Load())%len(c.urls)] + path
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	c.attempts.Add(1)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // the body was read to its end or is not needed, so an error does not matter
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if temporary(response.StatusCode) && response.Header.Get("Retry-After") == "" {
		c.s.defects.note("%s %s is answered %d without Retry-After", method, path, response.StatusCode)
	}
	return &answer{response.StatusCode, content}, nil
}

func (c *caller) reserve(ctx context.Context, key string, request v1.ReservationRequest) (*answer, error) {
	return c.callUntilDecided(ctx, http.MethodPost, "/api/v1/reservations", key, request)
}

func (c *caller) release(ctx context.Context, key string) (*answer, error) {
	return c.callUntilDecided(ctx, http.MethodDelete, "/api/v1/reservations/"+key, "", nil)
}

func (c *caller) get(ctx context.Context, key string) (*answer, error) {
	return c.callUntilDecided(ctx, http.MethodGet, "/api/v1/reservations/"+key, "", nil)
}
