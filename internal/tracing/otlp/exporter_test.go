package otlp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing/otlp/otlptest"
)

// run starts an exporter, and returns a function that stops it.
func run(t *testing.T, url string) (e *Exporter, stop func()) {
	t.Helper()
	e, err := New(t.Context(), Options{Endpoint: url}, "test-program", "rome", logr.Discard())
	runtest.Check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Start(ctx) }()
	return e, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestSpansArriveAtTheCollector(t *testing.T) {
	received := otlptest.Start(t)
	exporter, stop := run(t, received.URL)
	began := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	root := tracing.Span{Name: tracing.Root, Journal: "j", Reservation: "res-a", Requester: "rome", Began: began, Ended: began.Add(5 * time.Second)}
	failed := tracing.Span{Name: "deliver", Journal: "j", Reservation: "res-a", Placement: 2, Requester: "rome", Provider: "paris", Began: began, Ended: began.Add(time.Second), Failure: "Refused"}
	exporter.Record(root)
	exporter.Record(failed)
	stop() // sends what waits

	spans := received.Spans()
	if len(spans) != 2 {
		t.Fatalf("%d spans arrived, want 2", len(spans))
	}
	if from := spans[0].Resource; from["service.name"] != "test-program" || from["k8s.cluster.name"] != "rome" {
		t.Errorf("resource attributes %v", from)
	}
	for i, sent := range []tracing.Span{root, failed} {
		got, trace, id := spans[i], sent.Trace(), sent.ID()
		if string(got.GetTraceId()) != string(trace[:]) || string(got.GetSpanId()) != string(id[:]) {
			t.Errorf("%s has trace %x and ID %x, want %x and %x", sent.Name, got.GetTraceId(), got.GetSpanId(), trace, id)
		}
		if got.GetStartTimeUnixNano() != uint64(sent.Began.UnixNano()) || got.GetEndTimeUnixNano() != uint64(sent.Ended.UnixNano()) { //nolint:gosec // after 1970
			t.Errorf("%s lasts from %d to %d", sent.Name, got.GetStartTimeUnixNano(), got.GetEndTimeUnixNano())
		}
	}
	if len(spans[0].GetParentSpanId()) != 0 {
		t.Errorf("the root has parent %x", spans[0].GetParentSpanId())
	}
	if want := root.ID(); string(spans[1].GetParentSpanId()) != string(want[:]) {
		t.Errorf("the parent is %x, want the root %x", spans[1].GetParentSpanId(), want)
	}
	if status := spans[1].GetStatus(); status.GetCode() != traces.Status_STATUS_CODE_ERROR || status.GetMessage() != "Refused" {
		t.Errorf("status %v of the span that failed", status)
	}
	want := map[string]string{"broker.reservation": "res-a", "broker.placement": "", "broker.requester": "rome", "broker.provider": "paris"}
	if diff := cmp.Diff(want, otlptest.TextsOf(spans[1].GetAttributes())); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

// Many spans for a collector that does not answer must neither stop the broker nor fill its memory.
func TestCollectorThatHangsDelaysNothing(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	exporter, _ := run(t, server.URL)
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		for i := range 10 * queueSize {
			exporter.Record(tracing.Span{Name: "deliver", Reservation: "res-a", Began: time.Unix(int64(i), 0), Ended: time.Unix(int64(i)+1, 0)})
		}
	}()
	select {
	case <-recorded:
	case <-time.After(time.Minute):
		t.Fatal("recording waits for the collector")
	}
}

func TestEndpointMustBeAURL(t *testing.T) {
	for _, endpoint := range []string{"collector:4318", "collector", "ftp://collector", "https://", "https://collector?x=y", "://"} {
		err := Options{Endpoint: endpoint}.Check()
		if err == nil || !strings.Contains(err.Error(), "--otlp-endpoint") || !strings.Contains(err.Error(), "https://collector.monitoring:4318") {
			t.Errorf("%q: got %v, want an error with the flag and an example", endpoint, err)
		}
	}
	if err := (Options{Endpoint: "https://user:secret@collector"}).Check(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an endpoint with credentials: got %v, want an error that does not repeat them", err)
	}
	for _, endpoint := range []string{"", "http://collector:4318", "https://collector", "https://collector/path/v1/traces"} {
		if err := (Options{Endpoint: endpoint}).Check(); err != nil {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
