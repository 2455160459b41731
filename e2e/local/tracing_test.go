package local

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing/otlp/otlptest"
)

// TestOneTraceOfAReservation sends the spans of the broker and of two agents to a collector. All of them must belong to
// one trace, with the root that the broker sends.
func TestOneTraceOfAReservation(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	received := otlptest.Start(t)
	setTracing(t, env, received.URL)
	t.Cleanup(func() { setTracing(t, env, "") })

	r, _ := readyRequest(t, rome, "traced", small())
	check(t, env.ReleaseAll(t.Context(), patience, namespace))
	check(t, env.AwaitClean(t.Context(), patience))

	provider := r.Status.TargetClusterID
	want := []string{
		"broker acknowledge", "broker deliver", "broker release", "broker reservation",
		provider + " await slice", provider + " clean up", provider + " decide",
		"rome drain and remove", "rome peer", "rome set up node",
	}
	trace, root := "", ""
	check(t, e2e.Await(t.Context(), patience, func(context.Context) (string, error) {
		var names []string
		spans := slices.DeleteFunc(received.Spans(), func(s otlptest.Span) bool {
			return otlptest.TextsOf(s.GetAttributes())["broker.reservation"] != r.Status.ReservationName
		})
		for _, s := range spans {
			from := "broker"
			if id := s.Resource["k8s.cluster.name"]; id != "" {
				from = id
			}
			names = append(names, from+" "+s.GetName())
			if s.GetName() == "reservation" {
				trace, root = hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId())
			}
		}
		for _, s := range spans {
			if id := hex.EncodeToString(s.GetTraceId()); root != "" && id != trace {
				return "", fmt.Errorf("span %q is in trace %s, the root in %s", s.GetName(), id, trace)
			}
			if parent := hex.EncodeToString(s.GetParentSpanId()); root != "" && s.GetName() != "reservation" && parent != root {
				return "", fmt.Errorf("span %q has parent %s, the root is %s", s.GetName(), parent, root)
			}
		}
		for _, name := range want {
			if !slices.Contains(names, name) {
				return fmt.Sprintf("span %q to arrive; there are %s", name, strings.Join(names, ", ")), nil
			}
		}
		return "", nil
	}))
}

// setTracing lets the broker and the agents of rome and of the clusters that may serve it send spans to the collector
// at endpoint. If endpoint is "", they send none.
func setTracing(t *testing.T, env *Environment, endpoint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	for _, name := range []string{"broker", "rome", "paris", "berlin"} {
		values := env.Product.Values(name)
		if delete(values, "tracing"); endpoint != "" {
			values["tracing"] = map[string]any{"endpoint": endpoint}
		}
		check(t, env.Product.Upgrade(ctx, name, values))
	}
	check(t, env.AwaitAdvertised(ctx, patience))
}
