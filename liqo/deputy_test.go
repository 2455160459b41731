package liqo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// unattended returns a world in which paris has no agent, and rome has a kubeconfig of paris.
func unattended(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.sites["paris"].unattended = true
	return w
}

func TestPeeringWithAClusterWithoutAgent(t *testing.T) {
	steps := 0
	tests := map[string]func(*world){
		"undisturbed": func(*world) {},
		// Both ends of the handshake forget at the same time, so it starts again.
		"the consumer restarts again and again": func(w *world) {
			if steps++; steps%7 == 0 {
				w.restart("rome")
			}
		},
	}
	for name, after := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := unattended(t)
				w.reserve("rome", "paris", "res-a")
				w.until("the first node is ready", after, func() bool { return w.nodeReady("rome", "res-a-1") })
				w.reserve("rome", "paris", "res-b")
				w.until("the second node is ready", after, func() bool { return w.nodeReady("rome", "res-b-1") })
				if w.sent() > 0 {
					t.Errorf("%d messages went to a cluster that has no agent", w.sent())
				}
				w.release("rome", "paris", "res-a", after)
				if !w.nodeReady("rome", "res-b-1") {
					t.Error("the other placement's node is gone")
				}
				w.release("rome", "paris", "res-b", after)
				w.wantEmpty()
			})
		})
	}
}

func TestProviderWithoutAgentGrantsReservedAmounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := unattended(t)
		w.reserve("rome", "paris", "res-a")
		granted := func() string {
			var slice authv1beta1.ResourceSlice
			if !w.exists("paris", object.TenantNamespaceName("rome"), "res-a-1", &slice) {
				return ""
			}
			return slice.Status.Resources.Cpu().String()
		}
		w.until("one core is granted", nil, func() bool { return granted() == "1" })
		inst := &agentv1alpha1.ReservationInstruction{}
		w.check(w.sites["rome"].client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "res-a-1"}, inst))
		inst.Spec.Resources[corev1.ResourceCPU] = resource.MustParse("2")
		w.check(w.sites["rome"].client.Update(t.Context(), inst))
		w.until("two cores are granted", nil, func() bool { return granted() == "2" })
	})
}

func TestMissingKubeconfigIsReported(t *testing.T) {
	away := func(string) (client.Client, error) { return nil, errors.New("there is no paris.kubeconfig") }
	tests := map[string]struct {
		remote func(string) (client.Client, error)
		want   string
	}{
		"this agent does not use kubeconfigs":   {want: "--peering-mode=kubeconfig"},
		"there is no kubeconfig of the cluster": {remote: away, want: "paris.kubeconfig"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := unattended(t)
				rome := w.sites["rome"]
				rome.peering.opts.Remote = test.remote
				w.reserve("rome", "paris", "res-a")
				w.run(time.Second)
				inst := &agentv1alpha1.ReservationInstruction{}
				w.check(rome.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "res-a-1"}, inst))
				state, err := rome.peering.Consume(t.Context(), inst)
				w.check(err)
				if state.Peered.True || !strings.Contains(state.Peered.Message, test.want) || state.Again == 0 {
					t.Errorf("got %+v, looked at again after %s, want %q", state.Peered, state.Again, test.want)
				}
				w.release("rome", "paris", "res-a", nil)
				w.wantEmpty()
			})
		})
	}
}

// hanging is a client of a cluster that accepts connections and never answers.
type hanging struct{ client.Client }

func (hanging) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hanging) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// slow is a client of a cluster that takes its time.
type slow struct{ client.Client }

func (c slow) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	time.Sleep(50 * time.Millisecond)
	return c.Client.Get(ctx, key, obj, opts...)
}

func (c slow) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	time.Sleep(50 * time.Millisecond)
	return c.Client.List(ctx, list, opts...)
}

// One worker serves the placements at all providers, so it must not wait for a cluster that hangs.
func TestHangingClusterWithoutAgentDoesNotDelayOtherPlacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		rome, stuck := w.sites["rome"], &hanging{}
		rome.peering.opts.Remote = func(string) (client.Client, error) { return stuck, nil }
		w.check(rome.client.Create(t.Context(), &agentv1alpha1.ReservationInstruction{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-a-1", Finalizers: []string{agentv1alpha1.PeeringFinalizer}},
			Spec: agentv1alpha1.ReservationInstructionSpec{
				ReservationName: "res-a", Placement: 1, TargetClusterID: "berlin", Resources: listOf("cpu", "1"), Unattended: true,
			},
		}))
		began := time.Now()
		w.reserve("rome", "paris", "res-b")
		w.until("the node at paris is ready", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the node at paris took %s beside a cluster that hangs", took)
		}
		w.run(deputyTimeout + deputyStep)
		inst := &agentv1alpha1.ReservationInstruction{}
		w.check(rome.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "res-a-1"}, inst))
		state, err := rome.peering.Consume(t.Context(), inst)
		w.check(err)
		if !strings.Contains(state.Peered.Message, "context deadline exceeded") || state.Again == 0 {
			t.Errorf("got %+v, looked at again after %s", state.Peered, state.Again)
		}
	})
}

// Each round takes longer than the worker waits for it.
func TestPeeringWithASlowClusterWithoutAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := unattended(t)
		rome, paris := w.sites["rome"], &slow{w.sites["paris"].client}
		rome.peering.opts.Remote = func(string) (client.Client, error) { return paris, nil }
		w.reserve("rome", "paris", "res-a")
		w.reserve("rome", "paris", "res-b")
		w.until("both nodes are ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") && w.nodeReady("rome", "res-b-1") })
		w.setRelease("rome", "paris", "res-a", true)
		w.release("rome", "paris", "res-b", nil)
		w.until("both instructions are gone", nil, func() bool { return !w.anyInstruction() })
		w.wantEmpty()
	})
}

func TestLostClusterWithoutAgentIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := unattended(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		w.sites["paris"].cut = true
		w.setRelease("rome", "paris", "res-a", true)
		inst := &agentv1alpha1.ReservationInstruction{}
		key := client.ObjectKey{Namespace: "default", Name: "res-a-1"}
		w.run(giveUpAfter / 2)
		w.check(w.sites["rome"].client.Get(t.Context(), key, inst))
		state, err := w.sites["rome"].peering.Consume(t.Context(), inst)
		w.check(err)
		if state.Done || !strings.Contains(state.Peered.Message, "waiting to leave \"paris\"") {
			t.Errorf("before its time is over: done %v, %q", state.Done, state.Peered.Message)
		}
		w.until("the instruction is gone", nil, func() bool { return !w.anyInstruction() })
	})
}
