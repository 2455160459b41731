package attacks

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
)

// stopAgent ends the provider's agent until resume is called or the test is over.
func (s *scene) stopAgent(t *testing.T) (resume func()) {
	t.Helper()
	agent := s.env.Product.Process(provider)
	agent.Kill()
	resume = func() {
		if !agent.Alive() {
			check(t, agent.Start())
		}
	}
	t.Cleanup(resume)
	return resume
}

// While no agent answers, admission alone holds: consumers start nothing, and the provider's
// own users are not disturbed.
func TestNothingStartsWhileTheAgentIsDown(t *testing.T) {
	s := open(t)
	resume := s.stopAgent(t)
	t.Run("forbidden pods are refused by the API server itself", func(t *testing.T) {
		s.refusePods(t, s.rome, map[string]func(pod map[string]any){
			"a privileged pod": onMain(true, "securityContext", "privileged"),
			"negative CPU":     requests("-100", "16Mi"),
			"the host's files": set([]any{map[string]any{"name": "v", "hostPath": map[string]any{"path": "/"}}}, "volumes"),
		})
	})
	t.Run("nothing runs beyond the grant", func(t *testing.T) {
		for round := range 3 {
			shadow := s.rome.heavy(nameOf("down", round))
			_ = s.rome.kubelet.Create(t.Context(), shadow)
			together(20, func(int) { _ = s.rome.kubelet.Delete(t.Context(), shadow.DeepCopy()) })
			together(4, func(i int) {
				_ = s.rome.kubelet.Create(t.Context(), s.rome.heavy(fmt.Sprintf("beyond-%d-%d", round, i)))
			})
		}
		s.settleExcess(t, s.rome)
	})
	t.Run("the provider's users work on", func(t *testing.T) { s.workAtProvider(t) })
	t.Run("the other consumer's namespaces and slices stay its own", func(t *testing.T) {
		refused(t, s.rome.kubelet.List(t.Context(), &corev1.SecretList{}, client.InNamespace(s.berlin.landing)))
		refused(t, s.rome.plane.Status().Patch(t.Context(), e2e.Object(e2e.SliceKind, s.rome.office, s.rome.slice), merge(`{"status":{"resources":{"cpu":"1000"}}}`)))
	})
	resume()
	check(t, s.env.AwaitAdvertised(t.Context(), time.Minute))
}

// workAtProvider does what the provider's own users do every day: nobody waits for an agent.
func (s *scene) workAtProvider(t *testing.T) {
	t.Helper()
	const name = "provider-own"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	check(t, s.paris.Create(t.Context(), ns))
	t.Cleanup(func() { check(t, s.paris.DeleteAndWait(context.Background(), ns, time.Minute)) })
	check(t, s.paris.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named(name, "own")}))
	pod := &corev1.Pod{ObjectMeta: named(name, "own"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10"}}}}
	check(t, e2e.Await(t.Context(), 30*time.Second, func(ctx context.Context) (string, error) {
		fresh := pod.DeepCopy()
		return "", s.paris.Create(ctx, fresh) // its ServiceAccount may have to be made first
	}))
	check(t, e2e.Await(t.Context(), time.Minute, func(ctx context.Context) (string, error) {
		if err := s.paris.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil || pod.Status.Phase == corev1.PodRunning {
			return "", err
		}
		return fmt.Sprintf("pod %q of the provider to run, it is %s", pod.Name, pod.Status.Phase), nil
	}))
}

// overrun is a scene without the agent's webhook: Liqo's quota alone stands between a consumer
// and the provider's capacity, and the agent evicts what is too much.
func overrun(t *testing.T) *scene {
	t.Helper()
	env := stage.Open(t)
	withValues(t, env, provider, map[string]any{"webhook": map[string]any{"enabled": false}})
	check(t, env.AwaitAdvertised(t.Context(), time.Minute))
	s := openWith(t, env)
	t.Cleanup(func() {
		if !t.Failed() {
			s.liveHonestly(t, s.rome)
		}
	})
	return s
}

// exceed has rome run more than its grant, by parallel deletions that Liqo counts each.
func (s *scene) exceed(t *testing.T) {
	t.Helper()
	for round := range 5 {
		shadow := s.rome.heavy(nameOf("freed", round))
		_ = s.rome.kubelet.Create(t.Context(), shadow)
		together(40, func(int) { _ = s.rome.kubelet.Delete(t.Context(), shadow.DeepCopy()) })
		for i := range 4 {
			_ = s.rome.kubelet.Create(t.Context(), s.rome.heavy(fmt.Sprintf("beyond-%d-%d", round, i)))
		}
	}
}

// awaitWithinGrant waits until what rome runs fits into its grant again.
func (s *scene) awaitWithinGrant(t *testing.T) {
	t.Helper()
	check(t, e2e.Await(t.Context(), time.Minute, func(context.Context) (string, error) {
		s.observer.mu.Lock()
		defer s.observer.mu.Unlock()
		used, _, names := s.observer.usage("rome")
		if fits(used, grant()) {
			return "", nil
		}
		return fmt.Sprintf("rome to run at most %s, it runs %s: %v", words(grant()), words(used), names), nil
	}))
}

// The webhook is off: the excess is evicted, though the agent is killed while it does so.
func TestExcessIsEvictedThoughTheAgentIsKilled(t *testing.T) {
	s := overrun(t)
	t.Run("the agent evicts what is too much", func(t *testing.T) {
		s.exceed(t)
		s.awaitWithinGrant(t)
		s.wasExceeded(t)
		s.removeAll(t, s.rome)
	})
	t.Run("an agent that is killed meanwhile goes on", func(t *testing.T) {
		resume := s.stopAgent(t)
		s.exceed(t)
		resume()
		for range 3 {
			s.env.Product.Process(provider).Kill()
			check(t, s.env.Product.Process(provider).Start())
		}
		s.awaitWithinGrant(t)
		s.removeAll(t, s.rome)
	})
	t.Run("the other consumer's pods stay", func(t *testing.T) { s.liveHonestly(t, s.berlin) })
}

// wasExceeded fails if the attack did not do anything: the test would prove nothing.
func (s *scene) wasExceeded(t *testing.T) {
	t.Helper()
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	granted := grant()
	if most := s.observer.most["rome"]; most.Cmp(*granted.Cpu()) <= 0 {
		t.Errorf("rome never ran more than %s: nothing had to be evicted", most.String())
	}
}

// Each mode of the guards lets through what it says, and nothing else.
func TestGuardModes(t *testing.T) {
	privileged := onMain(true, "securityContext", "privileged")
	root := func(map[string]any) {} // an ordinary pod does not say that it does without root
	modes := map[string]struct {
		guard            map[string]any
		refused, allowed map[string]func(pod map[string]any)
	}{
		"podSecurity baseline": {
			map[string]any{"podSecurity": "baseline"},
			map[string]func(pod map[string]any){"a privileged pod": privileged}, map[string]func(pod map[string]any){"an ordinary pod": root},
		},
		"podSecurity restricted": {
			map[string]any{"podSecurity": "restricted"},
			map[string]func(pod map[string]any){"a privileged pod": privileged, "a pod that may be root": root},
			map[string]func(pod map[string]any){"a pod without rights": unprivileged},
		},
		"podSecurity off": {
			map[string]any{"podSecurity": "off"},
			map[string]func(pod map[string]any){"negative CPU": requests("-1", "16Mi"), "a node of its choice": set("paris-1", "nodeName")},
			map[string]func(pod map[string]any){"a privileged pod": privileged},
		},
	}
	s := open(t)
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			withValues(t, s.env, provider, map[string]any{"guard": mode.guard})
			s.awaitMode(t, mode.refused, true)
			s.awaitMode(t, mode.allowed, false)
		})
	}
}

// awaitMode waits until pods are refused or allowed: the API server reads changed policies
// after a moment.
func (s *scene) awaitMode(t *testing.T, pods map[string]func(pod map[string]any), wantRefused bool) {
	t.Helper()
	for what, change := range pods {
		check(t, e2e.Await(t.Context(), 30*time.Second, func(ctx context.Context) (string, error) {
			err := s.rome.kubelet.Create(ctx, s.rome.podWith("mode", change), client.DryRunAll)
			if (err != nil) == wantRefused {
				return "", nil
			}
			return fmt.Sprintf("%s refused: %v, want %v (%v)", what, err != nil, wantRefused, err), nil
		}))
	}
}

// unprivileged makes a pod fit for the strictest standard.
func unprivileged(pod map[string]any) {
	mainOf(pod)["securityContext"] = map[string]any{
		"allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": int64(65532),
		"capabilities": map[string]any{"drop": []any{"ALL"}}, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
	}
}

// A peering that an administrator made by hand is guarded as guard.elsewhere says.
func TestGuardElsewhereModes(t *testing.T) {
	env := stage.Open(t)
	peerByHand(t, env)
	plane, err := env.Identity(t.Context(), "rome", provider)
	check(t, err)
	steal := func(ctx context.Context) error {
		return plane.Status().Patch(ctx, e2e.Object(e2e.SliceKind, e2e.TenantNamespace("rome"), "by-hand"),
			merge(`{"status":{"resources":{"cpu":"7"}}}`), client.DryRunAll)
	}
	for mode, wantRefused := range map[string]bool{"off": false, "audit": false, "enforce": true} {
		t.Run(mode, func(t *testing.T) {
			withValues(t, env, provider, map[string]any{"guard": map[string]any{"elsewhere": mode}})
			check(t, e2e.Await(t.Context(), time.Minute, func(ctx context.Context) (string, error) {
				err := steal(ctx)
				if (err != nil) == wantRefused {
					return "", nil
				}
				return fmt.Sprintf("a write to the status of its slice refused: %v, want %v (%v)", err != nil, wantRefused, err), nil
			}))
		})
	}
}

// peerByHand peers rome and the provider with liqoctl until the test is over.
func peerByHand(t *testing.T, env *local.Environment) {
	t.Helper()
	t.Cleanup(func() { check(t, env.Unpeer(context.Background(), "rome", provider)) })
	check(t, env.Peer(t.Context(), "rome", provider, "--create-resource-slice=false"))
	check(t, env.Liqoctl(t.Context(), "rome", "create", "resourceslice", "by-hand", "--remote-cluster-id="+provider, "--cpu=500m", "--memory=256Mi", "--pods=10"))
}
