package robustness

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

// mischief is a fault of one request.
type mischief string

const (
	// cutBefore: the request does not arrive.
	cutBefore mischief = "cut before"
	// cutAfter: the request arrives, and the answer is lost.
	cutAfter mischief = "cut after"
	// cutWithin: half of the answer arrives.
	cutWithin mischief = "cut within"
	// doubled: the request arrives twice at the same time.
	doubled mischief = "doubled"
	// again: the request arrives once more, after the client's next one.
	again mischief = "once more later"
	// held: the request arrives after later ones of other clients.
	held mischief = "held back"
)

var mischiefs = []mischief{cutBefore, cutAfter, cutWithin, doubled, again, held}

// proxy is a proxy between clients and broker with the clients' certificates. It damages every second request, up to
// a number of faults.
type proxy struct {
	s *site

	mu     sync.Mutex
	random *rand.Rand
	left   int
	did    map[mischief]int
	late   sync.WaitGroup
}

func (s *site) proxy(random *rand.Rand, harm int) *proxy {
	p := &proxy{s: s, random: rand.New(rand.NewPCG(random.Uint64(), 2)), left: harm, did: map[mischief]int{}}
	s.t.Cleanup(p.late.Wait)
	return p
}

// lead makes a client use the proxy.
func (p *proxy) lead(c *caller) {
	onward := &http.Client{Transport: p.s.roundTripper(c.id)}
	urls := c.urls
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, onward, urls) }))
	p.s.t.Cleanup(server.Close)
	c.urls, c.http = []string{server.URL}, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
}

// remaining returns the number of faults still to come.
func (p *proxy) remaining() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// done returns the number of faults of each kind.
func (p *proxy) done() map[mischief]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.did)
}

func (p *proxy) next() (what mischief, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 || p.random.IntN(2) == 0 {
		return "", 0
	}
	p.left--
	what = mischiefs[p.random.IntN(len(mischiefs))]
	p.did[what]++
	return what, time.Duration(p.random.IntN(400)) * time.Millisecond
}

// hangUp ends the connection without an answer.
func hangUp() { panic(http.ErrAbortHandler) }

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, onward *http.Client, urls []string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		hangUp()
	}
	// A request that was sent arrives even if its sender has gone.
	ctx := context.WithoutCancel(r.Context())
	pass := func() *passed { return forward(ctx, r, body, onward, urls) }
	what, delay := p.next()
	switch what {
	case cutBefore:
		hangUp()
	case held:
		time.Sleep(delay)
	case doubled:
		p.late.Go(func() { pass() })
	case again:
		p.late.Go(func() {
			time.Sleep(delay)
			pass()
		})
	}
	reply := pass()
	if reply == nil || what == cutAfter {
		hangUp()
	}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if value := reply.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	if what == cutWithin && len(reply.body) > 1 {
		w.Header().Set("Content-Length", strconv.Itoa(len(reply.body)))
		w.WriteHeader(reply.status)
		_, _ = w.Write(reply.body[:len(reply.body)/2])
		hangUp()
	}
	w.WriteHeader(reply.status)
	_, _ = w.Write(reply.body) // an error means that the client has gone
}

// passed is an answer with its whole body.
type passed struct {
	status int
	header http.Header
	body   []byte
}

// forward sends a request to one replica after the other until one answers. It returns nil if none answers.
func forward(ctx context.Context, r *http.Request, body []byte, onward *http.Client, urls []string) *passed {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, url := range urls {
		request, err := http.NewRequestWithContext(ctx, r.Method, url+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			return nil
		}
		request.Header = r.Header.Clone()
		response, err := onward.Do(request)
		if err != nil {
			continue
		}
		content, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // the body was read to its end or is not needed, so an error does not matter
		if err == nil {
			return &passed{response.StatusCode, response.Header, content}
		}
	}
	return nil
}
