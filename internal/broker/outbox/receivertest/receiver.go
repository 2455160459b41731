// Package receivertest provides real receivers of notifications for tests: an HTTP server that verifies signatures,
// one that behaves like an incoming webhook of Slack, and a mail server.
package receivertest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Key is the key with which the receivers of CloudEvents verify signatures.
const Key = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// Received is a message that a receiver has accepted.
type Received struct {
	// ID is the message's ID; "" for Slack, whose messages have the ID in the text.
	ID string
	// Type, Subject and Sequence are the attributes of a CloudEvent.
	Type, Subject, Sequence string
	// Text is the text of a message to Slack or by e-mail.
	Text string
}

// Receiver collects what it receives.
type Receiver struct {
	// URL is the address of the receiver.
	URL string

	mu     sync.Mutex
	got    []Received
	isDown bool
	// problem is the first error in a message.
	problem error
}

// SetDown makes the receiver answer with errors, or with success again.
func (r *Receiver) SetDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isDown = down
}

// Received returns what the receiver has accepted. It fails the test if any message was invalid.
func (r *Receiver) Received(t *testing.T) []Received {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem != nil {
		t.Fatal(r.problem)
	}
	return append([]Received{}, r.got...)
}

func (r *Receiver) accept(m Received, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		if r.problem == nil {
			r.problem = err
		}
		return false
	case r.isDown:
		return false
	}
	r.got = append(r.got, m)
	return true
}

// serve starts an HTTPS server that collects the messages that read finds in requests. It returns
// the CA of its certificate in PEM.
func (r *Receiver) serve(t *testing.T, read func(*http.Request, []byte) (Received, error), answer string) []byte {
	t.Helper()
	authority, config := newCertificate(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return // the client was killed
		}
		m, err := read(q, body)
		if !r.accept(m, err) {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, answer)
	}))
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	r.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/in"
	return authority
}

// NewCloudEvents starts a receiver of CloudEvents that verifies their signatures with Key. It also
// returns the CA of its certificate in PEM.
func NewCloudEvents(t *testing.T) (*Receiver, []byte) {
	t.Helper()
	r := &Receiver{}
	return r, r.serve(t, readCloudEvent, "")
}

func readCloudEvent(q *http.Request, body []byte) (Received, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(Key, "whsec_"))
	if err != nil {
		return Received{}, err
	}
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "%s.%s.%s", q.Header.Get("webhook-id"), q.Header.Get("webhook-timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	if got := q.Header.Get("webhook-signature"); got != want {
		return Received{}, fmt.Errorf("the signature is %q, want %q", got, want)
	}
	var e struct {
		SpecVersion, ID, Type, Source, Subject, Sequence string
		Data                                             struct{ Message string }
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return Received{}, err
	}
	if e.SpecVersion != "1.0" || e.ID != q.Header.Get("webhook-id") || e.Source == "" || q.Header.Get("Content-Type") != "application/cloudevents+json" {
		return Received{}, fmt.Errorf("no CloudEvent: %s with %v", body, q.Header)
	}
	return Received{ID: e.ID, Type: e.Type, Subject: e.Subject, Sequence: e.Sequence, Text: e.Data.Message}, nil
}

// NewSlack starts a receiver that accepts the same messages as Slack's incoming webhooks. It also returns the CA of
// its certificate in PEM.
func NewSlack(t *testing.T) (*Receiver, []byte) {
	t.Helper()
	r := &Receiver{}
	return r, r.serve(t, func(q *http.Request, body []byte) (Received, error) {
		var m struct{ Text string }
		if err := json.Unmarshal(body, &m); err != nil || m.Text == "" || q.Header.Get("Content-Type") != "application/json" {
			return Received{}, fmt.Errorf("invalid_payload: %s: %w", body, err)
		}
		return Received{Text: m.Text}, nil
	}, "ok")
}
