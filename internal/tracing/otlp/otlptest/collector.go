// Package otlptest is an OpenTelemetry collector for tests.
package otlptest

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector receives OTLP over HTTP and keeps all spans.
type Collector struct {
	// URL is the endpoint for --otlp-endpoint.
	URL string

	mu    sync.Mutex // guards spans
	spans []Span
}

// Span is a span that arrived, with the attributes of the program that sent it.
type Span struct {
	*traces.Span
	Resource map[string]string
}

// Start starts a collector that runs until the test ends.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/traces" {
			http.NotFound(w, r)
			return
		}
		if err := c.keepSpans(r); err != nil {
			t.Errorf("spans arrived that cannot be read: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) keepSpans(r *http.Request) error {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	message := &collector.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(raw, message); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range message.GetResourceSpans() {
		resource := TextsOf(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, Span{span, resource})
			}
		}
	}
	return nil
}

// Spans returns the spans that have arrived, in the order of their arrival.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// TextsOf returns the texts of attributes by key. An attribute that is no text has "".
func TextsOf(attributes []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range attributes {
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}
