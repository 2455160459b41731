package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// PeeringTimes holds the times from a request for capacity until the virtual node is Ready. All times are measured on
// the same two clusters.
type PeeringTimes struct {
	// Cold is measured on clusters that are not peered. liqoctl peers them and creates a slice.
	Cold Comparison
	// Warm is measured on clusters that are peered and already have a virtual node. liqoctl creates another slice.
	Warm Comparison
}

// Comparison holds the times of requests and those of liqoctl.
type Comparison struct{ Request, Liqoctl []time.Duration }

const (
	// peeredConsumer and peeredProvider are the two clusters on which the times are measured. The provider is the
	// cheapest cluster, so that the broker chooses it for requests.
	peeredConsumer, peeredProvider = "rome", "paris"
	// moreNodes is how many virtual nodes are created after the first one.
	moreNodes = 2
)

// MeasurePeering compares requests with liqoctl. It measures in the order request, liqoctl, liqoctl, request, and
// then repeats this order. The clusters must not be peered when it begins. They are not peered when it returns.
func (e *Environment) MeasurePeering(ctx context.Context, turns int) (PeeringTimes, error) {
	var times PeeringTimes
	if err := e.EnsureNamespace(ctx, e.Member(peeredConsumer), namespace); err != nil {
		return times, err
	}
	if err := e.AwaitAdvertised(ctx, readyWithin); err != nil {
		return times, err
	}
	order := [...]func(context.Context, *PeeringTimes) error{e.byRequest, e.byLiqoctl, e.byLiqoctl, e.byRequest}
	for i := range turns {
		if err := order[i%len(order)](ctx, &times); err != nil {
			return times, err
		}
		if err := e.AwaitClean(ctx, readyWithin); err != nil {
			return times, err
		}
	}
	return times, nil
}

// GuardTimes compares requests with and without the guards: Cold for clusters that were not peered before the request,
// Warm for clusters that were.
type GuardTimes struct{ Cold, Warm GuardComparison }

// GuardComparison holds the times of requests with guard.enabled and webhook.enabled, and the times of requests
// without them.
type GuardComparison struct{ With, Without []time.Duration }

// MeasureGuards compares requests with and without the guards. It measures in the order with, without, without, with,
// and then repeats this order. In each turn it peers several times. It does not measure the first times: agents have
// just restarted, and API servers compile policies on their first use. The clusters must not be peered when it begins.
// They are not peered when it returns.
func (e *Environment) MeasureGuards(ctx context.Context, turns, unmeasured, measured int) (_ GuardTimes, err error) {
	var with, without, ignored PeeringTimes
	if err := e.EnsureNamespace(ctx, e.Member(peeredConsumer), namespace); err != nil {
		return GuardTimes{}, err
	}
	defer func() { err = errors.Join(err, e.setGuards(ctx, true)) }()
	order := [...]bool{true, false, false, true}
	for i := range turns {
		guarded, times := order[i%len(order)], &without
		if guarded {
			times = &with
		}
		if err := e.setGuards(ctx, guarded); err != nil {
			return GuardTimes{}, err
		}
		if err := e.AwaitAdvertised(ctx, readyWithin); err != nil {
			return GuardTimes{}, err
		}
		for n := range unmeasured + measured {
			into := times
			if n < unmeasured {
				into = &ignored
			}
			if err := e.byRequest(ctx, into); err != nil {
				return GuardTimes{}, err
			}
			if err := e.AwaitClean(ctx, readyWithin); err != nil {
				return GuardTimes{}, err
			}
		}
	}
	return GuardTimes{
		Cold: GuardComparison{With: with.Cold.Request, Without: without.Cold.Request},
		Warm: GuardComparison{With: with.Warm.Request, Without: without.Warm.Request},
	}, nil
}

// setGuards turns the policies and webhooks of the agents in both clusters on or off.
func (e *Environment) setGuards(ctx context.Context, on bool) error {
	for _, name := range []string{peeredConsumer, peeredProvider} {
		values := e.Product.Values(name)
		for _, guard := range []string{"guard", "webhook"} {
			part, _ := values[guard].(map[string]any)
			part = maps.Clone(part)
			if part == nil {
				part = map[string]any{}
			}
			part["enabled"] = on
			values[guard] = part
		}
		if err := e.Product.Upgrade(ctx, name, values); err != nil {
			return fmt.Errorf("guards of %s: %w", name, err)
		}
	}
	return nil
}

func (e *Environment) byRequest(ctx context.Context, times *PeeringTimes) error {
	consumer := e.Member(peeredConsumer)
	for n := range 1 + moreNodes {
		took, err := awaitNodes(ctx, consumer, n+1, func() error {
			_, err := consumer.Request(ctx, namespace, fmt.Sprintf("node-%d", n), small())
			return err
		})
		if err != nil {
			return err
		}
		addTime(&times.Cold.Request, &times.Warm.Request, n, took)
	}
	return e.ReleaseAll(ctx, readyWithin, namespace)
}

func (e *Environment) byLiqoctl(ctx context.Context, times *PeeringTimes) error {
	for n := range 1 + moreNodes {
		took, err := awaitNodes(ctx, e.Member(peeredConsumer), n+1, func() error {
			if n == 0 {
				if err := e.Peer(ctx, peeredConsumer, peeredProvider, "--create-resource-slice=false"); err != nil {
					return err
				}
			}
			return e.Liqoctl(ctx, peeredConsumer, "create", "resourceslice", fmt.Sprintf("node-%d", n),
				"--remote-cluster-id="+peeredProvider, "--cpu=500m", "--memory=256Mi", "--pods=10")
		})
		if err != nil {
			return err
		}
		addTime(&times.Cold.Liqoctl, &times.Warm.Liqoctl, n, took)
	}
	return e.Unpeer(ctx, peeredConsumer, peeredProvider)
}

// addTime adds the time until the n-th virtual node: to cold if n is 0, otherwise to warm.
func addTime(cold, warm *[]time.Duration, n int, took time.Duration) {
	if n == 0 {
		*cold = append(*cold, took)
	} else {
		*warm = append(*warm, took)
	}
}

// awaitNodes calls ask, and waits until n virtual nodes are Ready. It returns how long this took.
func awaitNodes(ctx context.Context, c *e2e.Cluster, n int, ask func() error) (time.Duration, error) {
	began := time.Now()
	if err := ask(); err != nil {
		return 0, err
	}
	err := e2e.Await(ctx, readyWithin, func(ctx context.Context) (string, error) {
		nodes := &corev1.NodeList{}
		if err := c.List(ctx, nodes, client.MatchingLabels{"liqo.io/type": "virtual-node"}); err != nil {
			return "", err
		}
		ready := 0
		for _, node := range nodes.Items {
			for _, condition := range node.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if ready == n {
			return "", nil
		}
		return fmt.Sprintf("%d virtual nodes of %s to be Ready, %d are", n, c.Name, ready), nil
	})
	return time.Since(began), err
}

// readyWithin is how long a virtual node may take to become Ready on a busy machine.
const readyWithin = 3 * time.Minute

// namespace is the namespace for requests and pods in every member.
const namespace = "e2e"

// small returns amounts that are small enough for every cluster.
func small() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
}
