package local

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestOfferIsReconfiguredWithoutARestart edits the configuration of paris's agent, as its operator
// would. The agent is never restarted.
func TestOfferIsReconfiguredWithoutARestart(t *testing.T) {
	env := playgroundOf(t)
	rome, paris := env.Member("rome"), env.Member("paris")
	before := env.Product.Values("paris")
	t.Cleanup(func() { check(t, env.Product.Upgrade(context.Background(), "paris", before)) })
	offers := func(config map[string]any) {
		t.Helper()
		check(t, env.Product.Upgrade(t.Context(), "paris", configured(before, config)))
	}
	all, err := env.Advertisement(t.Context(), "paris")
	check(t, err)
	nodes := lendable(t, paris)

	offers(map[string]any{"offer": map[string]any{"share": "50%", "resources": map[string]any{"cpu": map[string]any{"cap": "3"}}}})
	agent := env.Product.Pods("paris")[0]
	pid := agent.Process().Pid()
	check(t, awaitOffer(t.Context(), env, func(r *brokerv1alpha1.ResourceMetrics) bool {
		half := all.Spec.Resources.Available.Memory().Value() / 2
		return r.Available.Cpu().Equal(resource.MustParse("3")) && within(r.Available.Memory().Value(), half, half/20)
	}, "3 cores and half of the memory of paris"))
	want := small()
	want[corev1.ResourceCPU] = resource.MustParse("4")
	r, err := rome.Request(t.Context(), namespace, "beyond-the-cap", want, func(s *agentv1alpha1.ResourceRequestSpec) {
		s.Constraints = &brokerv1alpha1.Constraints{IncludeClusters: []string{"paris"}}
	})
	check(t, err)
	check(t, rome.AwaitPhase(t.Context(), r, readyWithin, agentv1alpha1.RequestFailed))

	one := nodes[0]
	offers(map[string]any{"offer": map[string]any{"nodeSelector": corev1.LabelHostname + "=" + one.Name}})
	check(t, awaitOffer(t.Context(), env, func(r *brokerv1alpha1.ResourceMetrics) bool {
		return r.Allocatable.Cpu().Equal(*one.Status.Allocatable.Cpu()) && r.Capacity.Cpu().Equal(*all.Spec.Resources.Capacity.Cpu())
	}, "one node of paris of "+fmt.Sprint(len(nodes))))

	// The chart refuses most mistakes itself; it does not read selectors.
	offers(map[string]any{"offer": map[string]any{"nodeSelector": "pool in lend"}})
	check(t, awaitOwnCondition(t.Context(), paris, patience, agentv1alpha1.ConditionConfigured, metav1.ConditionFalse, `offer.nodeSelector: "pool in lend" is not a selector`))
	check(t, awaitRefusal(t.Context(), paris))
	now, err := env.Advertisement(t.Context(), "paris")
	check(t, err)
	if !now.Spec.Resources.Allocatable.Cpu().Equal(*one.Status.Allocatable.Cpu()) {
		t.Errorf("what was refused changed the offer: %+v", now.Spec.Resources)
	}

	offers(map[string]any{"offer": map[string]any{"share": 100}})
	check(t, awaitOffer(t.Context(), env, func(r *brokerv1alpha1.ResourceMetrics) bool {
		return r.Allocatable.Cpu().Equal(*all.Spec.Resources.Allocatable.Cpu()) && r.Available.Cpu().Equal(*all.Spec.Resources.Available.Cpu())
	}, "all of paris"))
	if got := env.Product.Pods("paris")[0].Process().Pid(); got != pid {
		t.Errorf("the agent was restarted: process %d, was %d", got, pid)
	}
}

// configured returns an agent's values with sections of its AgentConfiguration replaced.
func configured(values, sections map[string]any) map[string]any {
	config := maps.Clone(values["config"].(map[string]any))
	maps.Copy(config, sections)
	out := maps.Clone(values)
	out["config"] = config
	return out
}

// lendable returns the nodes of a cluster that are not virtual. It fails the test if there is only
// one.
func lendable(t *testing.T, c *e2e.Cluster) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	check(t, c.List(t.Context(), &list))
	list.Items = slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return n.Labels["liqo.io/type"] != "" })
	if len(list.Items) < 2 {
		t.Fatalf("%s has %d nodes, a selector proves nothing", c.Name, len(list.Items))
	}
	return list.Items
}

func within(got, want, distance int64) bool { return got >= want-distance && got <= want+distance }

func awaitOffer(ctx context.Context, env *Environment, is func(*brokerv1alpha1.ResourceMetrics) bool, what string) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		adv, err := env.Advertisement(ctx, "paris")
		if err != nil || is(&adv.Spec.Resources) {
			return "", err
		}
		return fmt.Sprintf("the broker to show %s, it shows %+v", what, adv.Spec.Resources), nil
	})
}

// awaitRefusal waits for the event of a refused configuration.
func awaitRefusal(ctx context.Context, c *e2e.Cluster) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		var list eventsv1.EventList
		err := c.List(ctx, &list, client.InNamespace("default"))
		refused := slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == agentv1alpha1.ReasonConfigurationRefused && e.Type == corev1.EventTypeWarning
		})
		if err != nil || refused {
			return "", err
		}
		return "an event that says that the file is refused", nil
	})
}
