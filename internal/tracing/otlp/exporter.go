// Package otlp sends spans to an OpenTelemetry collector, with OTLP over HTTP.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// Options say where spans are sent.
type Options struct {
	// Endpoint is the collector's URL, with http or https, a host, and optionally a port and a path. The
	// path is /v1/traces if it is empty. No spans are sent if Endpoint is "".
	Endpoint string
}

// Bind adds the flag for these options.
func (o *Options) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.Endpoint, "otlp-endpoint", o.Endpoint, "URL of an OpenTelemetry collector for traces, for example https://collector:4318")
}

// Check returns an error if the endpoint is not a URL to which spans can be sent.
func (o Options) Check() error {
	if o.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(o.Endpoint)
	if err == nil && u.User != nil {
		return errors.New("--otlp-endpoint contains credentials, which logs would show: give headers in the variable OTEL_EXPORTER_OTLP_HEADERS instead")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return fmt.Errorf("--otlp-endpoint %q is not the URL of a collector: give for example https://collector.monitoring:4318", o.Endpoint)
	}
	return nil
}

const (
	// queueSize is how many spans wait to be sent at most. Spans beyond are dropped, so that a collector
	// that does not answer costs no more memory than about 2 MB.
	queueSize = 2048
	// sendEvery is how long a span waits for others to be sent with it.
	sendEvery = 2 * time.Second
	// stopWithin is how long the program waits for the last spans to be sent when it stops.
	stopWithin = 3 * time.Second
)

// Exporter sends spans to a collector. It is a controller-runtime Runnable that runs in every replica.
type Exporter struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// AddTo adds an exporter to a manager, and returns the function that records spans with it; see New. It
// returns nil if no spans are wanted.
func (o Options) AddTo(ctx context.Context, mgr manager.Manager, program, clusterID string) (record func(tracing.Span), err error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	exporter, err := New(ctx, o, program, clusterID, mgr.GetLogger().WithName("tracing"))
	if err != nil {
		return nil, err
	}
	return exporter.Record, mgr.Add(exporter)
}

// New returns an exporter for one program: its name, its version and the ID of its cluster ("" for none)
// are attributes of all spans. It does not connect. Failures to send are logged.
func New(ctx context.Context, o Options, program, clusterID string, log logr.Logger) (*Exporter, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	endpoint, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if endpoint.Path == "" || endpoint.Path == "/" {
		endpoint.Path = "/v1/traces"
	}
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint.String()))
	if err != nil {
		return nil, fmt.Errorf("--otlp-endpoint %q: %w", o.Endpoint, err)
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", program), attribute.String("service.version", version.String())}
	if clusterID != "" {
		attributes = append(attributes, attribute.String("k8s.cluster.name", clusterID))
	}
	described, err := resource.New(ctx, resource.WithAttributes(attributes...), resource.WithFromEnv(), resource.WithHost())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Info("sending spans failed", "endpoint", o.Endpoint, "error", err.Error()) }))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(described), sdktrace.WithIDGenerator(givenIDs{}), sdktrace.WithSampler(sdktrace.AlwaysSample()),
		sdktrace.WithBatcher(client, sdktrace.WithMaxQueueSize(queueSize), sdktrace.WithBatchTimeout(sendEvery)),
	)
	return &Exporter{provider: provider, tracer: provider.Tracer("github.com/mehdiazizian/liqo-resource-broker")}, nil
}

// Record queues a span to be sent. It never waits.
func (e *Exporter) Record(s tracing.Span) {
	ids := spanIDs{trace: trace.TraceID(s.Trace()), span: trace.SpanID(s.ID())}
	ctx := context.WithValue(context.Background(), idsKey{}, ids)
	if s.Name != tracing.Root {
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: ids.trace, SpanID: trace.SpanID(tracing.RootOf(s.Trace())), TraceFlags: trace.FlagsSampled, Remote: true,
		}))
	}
	_, span := e.tracer.Start(ctx, s.Name, trace.WithTimestamp(s.Began), trace.WithAttributes(attributesOf(s)...))
	if s.Failure != "" {
		span.SetStatus(codes.Error, s.Failure)
	}
	span.End(trace.WithTimestamp(s.Ended))
}

func attributesOf(s tracing.Span) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.String("broker.reservation", s.Reservation)}
	if s.Placement != 0 {
		out = append(out, attribute.Int("broker.placement", int(s.Placement)))
	}
	if s.Requester != "" {
		out = append(out, attribute.String("broker.requester", s.Requester))
	}
	if s.Provider != "" {
		out = append(out, attribute.String("broker.provider", s.Provider))
	}
	return out
}

// Start waits until ctx is done, and then at most stopWithin until the spans that still wait are sent. Spans
// are sent from the moment that the Exporter is made.
func (e *Exporter) Start(ctx context.Context) error {
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	// A failure was logged by the error handler, and must not fail the program's end.
	_ = e.provider.Shutdown(stop)
	return nil
}

// NeedLeaderElection returns false, so that spans that a replica has made before it lost the lead are sent.
func (e *Exporter) NeedLeaderElection() bool { return false }

// idsKey is the key of a context's spanIDs.
type idsKey struct{}

type spanIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

// givenIDs gives each new span the IDs in its context, instead of random ones.
type givenIDs struct{}

func (givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids, _ := ctx.Value(idsKey{}).(spanIDs)
	return ids.trace, ids.span
}

func (givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	ids, _ := ctx.Value(idsKey{}).(spanIDs)
	return ids.span
}
