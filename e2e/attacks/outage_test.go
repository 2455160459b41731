package attacks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// stopAgent stops the provider's agent until resume is called or the test ends.
func (s *scene) stopAgent(t *testing.T) (resume func()) {
	t.Helper()
	s.env.Product.Process(s.provider.Name).Kill()
	resume = func() { // a process that replaced the agent meanwhile stays
		if agent := s.env.Product.Process(s.provider.Name); !agent.Alive() {
			check(t, agent.Start())
		}
	}
	t.Cleanup(resume)
	return resume
}

// TestNoPodStartsWhileAgentIsDown checks that admission holds without an agent: consumers
// start nothing, and the provider's own users are not disturbed. The test sets
// webhook.failurePolicy to Ignore, which applies only to ResourceRequests and must not admit pods.
func TestNoPodStartsWhileAgentIsDown(t *testing.T) {
	s := openToSpoil(t)
	withValues(t, s.env, provider, map[string]any{"webhook": map[string]any{"failurePolicy": "Ignore"}})
	resume := s.stopAgent(t)
	t.Run("forbidden pods are refused by the API server itself", func(t *testing.T) {
		s.refusePods(t, s.attacker, map[string]func(pod map[string]any){
			"a privileged pod": onMain(true, "securityContext", "privileged"),
			"negative CPU":     requests("-100", "16Mi"),
			"the host's files": set([]any{map[string]any{"name": "v", "hostPath": map[string]any{"path": "/"}}}, "volumes"),
		})
	})
	t.Run("nothing runs beyond the grant", func(t *testing.T) {
		for range 3 {
			shadow := s.attacker.heavy("down")
			_ = s.attacker.kubelet.Create(t.Context(), shadow)
			together(20, func(int) { _ = s.attacker.kubelet.Delete(t.Context(), shadow.DeepCopy()) })
			together(4, func(int) { _ = s.attacker.kubelet.Create(t.Context(), s.attacker.heavy("beyond")) })
		}
		s.settleExcess(t, s.attacker)
	})
	t.Run("the provider's users work on", func(t *testing.T) { s.workAtProvider(t) })
	t.Run("the other consumer's namespaces and slices stay its own", func(t *testing.T) {
		refused(t, s.attacker.kubelet.List(t.Context(), &corev1.SecretList{}, client.InNamespace(s.neighbour.landing)))
		refused(t, s.attacker.plane.Status().Patch(t.Context(), e2e.Object(e2e.SliceKind, s.attacker.office, s.attacker.slice), merge(`{"status":{"resources":{"cpu":"1000"}}}`)))
	})
	resume()
	check(t, s.env.AwaitAdvertised(t.Context(), patience))
}

// workAtProvider performs everyday operations of the provider's own users. None of them may wait
// for an agent.
func (s *scene) workAtProvider(t *testing.T) {
	t.Helper()
	const name = "provider-own"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	check(t, s.provider.Create(t.Context(), ns))
	t.Cleanup(func() { check(t, s.provider.DeleteAndWait(context.Background(), ns, patience)) })
	check(t, s.provider.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: named(name, "own")}))
	pod := &corev1.Pod{ObjectMeta: named(name, "own"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.k8s.io/pause:3.10"}}}}
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		fresh := pod.DeepCopy()
		return "", s.provider.Create(ctx, fresh) // the namespace's ServiceAccount may not exist yet
	}))
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		if err := s.provider.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil || pod.Status.Phase == corev1.PodRunning {
			return "", err
		}
		return fmt.Sprintf("pod %q of the provider to run, it is %s", pod.Name, pod.Status.Phase), nil
	}))
}

// overrun opens a scene at a provider whose agent does not admit pods. Only Liqo's quota limits
// what a consumer may use, and the agent evicts the excess. The broker pauses a consumer whose
// provider reports an excess. The scene therefore uses a pair that no other test needs: berlin
// attacks rome, and paris is the neighbour.
func overrun(t *testing.T) *scene {
	t.Helper()
	const host = "rome"
	env := openEmpty(t)
	withValues(t, env, host, map[string]any{"webhook": map[string]any{"enabled": false}})
	check(t, env.AwaitAdvertised(t.Context(), patience))
	s := openWith(t, env, host, "berlin", "paris")
	t.Cleanup(func() { s.behave(t) })
	return s
}

// behave has both consumers hold two further reservations without excess. When such a reservation
// is returned, the provider's tally against the consumer falls by one point. Otherwise this test,
// or the next run on the same playground, would end with a long pause.
func (s *scene) behave(t *testing.T) {
	t.Helper()
	ctx := context.Background() // the test's own context has ended
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	for _, c := range []*tenant{s.attacker, s.neighbour} {
		for range 2 {
			r, err := c.home.Request(ctx, namespace, unused("behaves"), small, at(s.provider.Name))
			check(t, err)
			check(t, c.home.AwaitPhase(ctx, r, patience, agentv1alpha1.RequestReserved, agentv1alpha1.RequestActive))
		}
	}
}

// lastingFor is how long an excess must last to need an eviction.
const lastingFor = 2 * time.Second

// exceed has the attacker exceed its grant until enough returns true. It deletes in parallel,
// because Liqo counts every deletion. It fails the test if no excess results, since the test would
// then prove nothing.
func (s *scene) exceed(t *testing.T, enough func() bool) {
	t.Helper()
	const rounds = 10
	s.observer.forgetMost()
	for range rounds {
		for range 5 {
			shadow := s.attacker.heavy("freed")
			_ = s.attacker.kubelet.Create(t.Context(), shadow)
			together(40, func(int) { _ = s.attacker.kubelet.Delete(t.Context(), shadow.DeepCopy()) })
		}
		for range 8 {
			_ = s.attacker.kubelet.Create(t.Context(), s.attacker.heavy("beyond"))
		}
		if e2e.Await(t.Context(), 2*lastingFor, func(context.Context) (string, error) {
			if enough() {
				return "", nil
			}
			return "an excess", nil
		}) == nil {
			return
		}
		s.removeAll(t, s.attacker) // for the next round
	}
	most := s.observer.mostOf(s.attacker.id)
	t.Fatalf("%s did not exceed its grant: it used at most %s CPU", s.attacker.id, most.String())
}

// isNoted reports whether the agent has recorded that a consumer exceeds its grant. From then on
// the agent refuses new pods, so there may be nothing left to evict.
func (s *scene) isNoted(t *testing.T, c *tenant) bool {
	t.Helper()
	inst := &agentv1alpha1.ProviderInstruction{ObjectMeta: named(s.env.InstructionNamespace, c.slice)}
	check(t, s.provider.Get(t.Context(), client.ObjectKeyFromObject(inst), inst))
	return inst.Status.Excess != nil
}

// awaitWithinGrant waits until the attacker's usage fits its grant again.
func (s *scene) awaitWithinGrant(t *testing.T) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(context.Context) (string, error) {
		s.observer.mu.Lock()
		defer s.observer.mu.Unlock()
		used, _, names := s.observer.usage(s.attacker.id)
		if fits(used, grant()) {
			return "", nil
		}
		return fmt.Sprintf("%s to run at most %s, it runs %s: %v", s.attacker.id, words(grant()), words(used), names), nil
	}))
}

// TestExcessIsEvictedThoughTheAgentIsKilled disables the webhook and kills the agent at every step
// of an eviction. The excess must still be evicted.
func TestExcessIsEvictedThoughTheAgentIsKilled(t *testing.T) {
	s := overrun(t)
	t.Run("the agent contains what is too much", func(t *testing.T) {
		s.exceed(t, func() bool { return s.isNoted(t, s.attacker) })
		s.awaitWithinGrant(t)
		s.removeAll(t, s.attacker)
	})
	first := s.attacker
	t.Run("an agent that is killed meanwhile goes on", func(t *testing.T) {
		s.attacker, s.neighbour = s.neighbour, s.attacker // the agent admits no pod of the first attacker for a minute
		s.stopAgent(t)
		s.exceed(t, func() bool { // one excess pod would disappear with its ShadowPod, before an eviction
			over, pods := s.observer.excessOf(s.attacker.id)
			return over > lastingFor && pods > 3
		})
		traces := t.TempDir()
		check(t, s.env.Product.Restart(t.Context(), s.provider.Name, failpoint.Arm(traces, failpoint.Excess...)...))
		s.awaitWithinGrant(t)
		for _, point := range failpoint.Excess {
			if _, err := os.Stat(filepath.Join(traces, string(point))); err != nil {
				t.Errorf("the agent was not killed at %q: %v", point, err)
			}
		}
		s.removeAll(t, s.attacker)
	})
	t.Run("pods of the first attacker run again after a minute", func(t *testing.T) {
		s.awaitUncordoned(t, first)
		s.liveHonestly(t, first)
	})
}

// awaitUncordoned waits until the agent admits new pods of a consumer again, one minute after the
// excess.
func (s *scene) awaitUncordoned(t *testing.T, c *tenant) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		slice := e2e.Object(e2e.SliceKind, c.office, c.slice)
		err := s.provider.Get(ctx, client.ObjectKeyFromObject(slice), slice)
		if err == nil && slice.GetAnnotations()["liqo.io/cordon"] == "true" {
			return fmt.Sprintf("slice %q to take new pods", c.slice), nil
		}
		return "", err
	}))
}

// TestGuardModes checks that each mode of the guards admits exactly what the mode allows.
func TestGuardModes(t *testing.T) {
	s := open(t)
	c := s.attacker
	pod := func(change func(pod map[string]any)) client.Object { return c.podWith("mode", change) }
	service := func(kind corev1.ServiceType, change func(svc *corev1.Service)) client.Object {
		svc := &corev1.Service{ObjectMeta: named(c.landing, "mode"), Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80}}}}
		change(svc)
		return svc
	}
	plain := func(*corev1.Service) {}
	balancer := func(change func(svc *corev1.Service)) client.Object {
		return service(corev1.ServiceTypeLoadBalancer, change)
	}
	ingress := func(host, class string) client.Object {
		return &networkingv1.Ingress{ObjectMeta: named(c.landing, "mode"), Spec: networkingv1.IngressSpec{
			IngressClassName: &class, Rules: []networkingv1.IngressRule{{Host: host}},
		}}
	}
	claim := func(class, size string, change func(claim *corev1.PersistentVolumeClaim)) client.Object {
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: named(c.landing, "mode"), Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		}}
		change(pvc)
		return pvc
	}
	privileged, ordinary := pod(onMain(true, "securityContext", "privileged")), pod(func(map[string]any) {}) // does not set runAsNonRoot
	hostPath := pod(set([]any{map[string]any{"name": "v", "hostPath": map[string]any{"path": "/"}}}, "volumes"))
	hostNetwork := pod(set(true, "hostNetwork"))
	adds := func(capability string) client.Object {
		return pod(onMain([]any{capability}, "securityContext", "capabilities", "add"))
	}
	hostPort := pod(onMain([]any{map[string]any{"containerPort": int64(80), "hostPort": int64(80)}}, "ports"))
	tolerates := func(key string) client.Object {
		return pod(set([]any{map[string]any{"key": key, "operator": "Exists"}}, "tolerations"))
	}
	ofItsChoice := pod(set("paris-1", "nodeName"))
	type objects = map[string]client.Object
	for name, mode := range map[string]struct {
		guard            map[string]any
		refused, allowed objects
	}{
		"podSecurity baseline": {
			map[string]any{"podSecurity": "baseline"},
			objects{"privileged": privileged, "hostPath": hostPath, "hostNetwork": hostNetwork, "hostPort": hostPort, "NET_ADMIN": adds("NET_ADMIN")},
			objects{"ordinary": ordinary, "CHOWN": adds("CHOWN"), "without rights": pod(unprivileged)},
		},
		"podSecurity restricted": {
			map[string]any{"podSecurity": "restricted"},
			objects{"privileged": privileged, "may be root": ordinary, "hostPort": hostPort, "CHOWN": adds("CHOWN")},
			objects{"without rights": pod(unprivileged)},
		},
		"podSecurity off": {
			map[string]any{"podSecurity": "off"},
			objects{"negative CPU": pod(requests("-1", "16Mi")), "a node of its choice": ofItsChoice, "hostPath": hostPath, "hostNetwork": hostNetwork},
			objects{"privileged": privileged, "hostPort": hostPort, "NET_ADMIN": adds("NET_ADMIN")},
		},
		"what operators lend": {
			map[string]any{
				"podSecurity": "off", "volumes": []any{"hostPath", "projected"}, "tolerations": []any{"node-role.kubernetes.io/control-plane"},
				"services": []any{"ClusterIP", "LoadBalancer", "ExternalName"}, "loadBalancerClasses": []any{"lent"}, "serviceAnnotations": []any{"example.com/lent"},
				"ingress": map[string]any{"hosts": []any{"*.{consumer}.example.com"}, "classes": []any{"lent"}},
				"storage": map[string]any{"classes": []any{"lent"}, "maxSize": "1Gi"},
			},
			objects{
				"emptyDir":           pod(set([]any{map[string]any{"name": "v", "emptyDir": map[string]any{}}}, "volumes")),
				"another toleration": tolerates("node.kubernetes.io/unschedulable"),
				"NodePort":           service(corev1.ServiceTypeNodePort, plain),
				"an address":         balancer(func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "192.0.2.1" }),
				"another class":      balancer(func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("example.com/internal") }),
				"a public name": balancer(func(svc *corev1.Service) {
					metav1.SetMetaDataAnnotation(&svc.ObjectMeta, "external-dns.alpha.kubernetes.io/hostname", "bank.example.com")
				}),
				"external addresses":   balancer(func(svc *corev1.Service) { svc.Spec.ExternalIPs = []string{"8.8.8.8"} }),
				"a name beside hosts":  service(corev1.ServiceTypeExternalName, func(svc *corev1.Service) { svc.Spec.ExternalName = "kubernetes.default.svc" }),
				"another's host":       ingress("a.berlin.example.com", "lent"),
				"every host":           ingress("", "lent"),
				"another's controller": ingress("a.rome.example.com", "internal"),
				"gold":                 claim("gold", "1Gi", func(*corev1.PersistentVolumeClaim) {}),
				"too much":             claim("lent", "2Gi", func(*corev1.PersistentVolumeClaim) {}),
				"a volume":             claim("lent", "1Gi", func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = "vault" }),
				"gold by annotation": claim("lent", "1Gi", func(claim *corev1.PersistentVolumeClaim) {
					metav1.SetMetaDataAnnotation(&claim.ObjectMeta, corev1.BetaStorageClassAnnotation, "gold")
				}),
			},
			objects{
				"hostPath": hostPath, "the toleration": tolerates("node-role.kubernetes.io/control-plane"), "LoadBalancer": balancer(plain),
				"the class":      balancer(func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = new("lent") }),
				"the annotation": balancer(func(svc *corev1.Service) { metav1.SetMetaDataAnnotation(&svc.ObjectMeta, "example.com/lent", "a") }),
				"the host":       ingress("a.rome.example.com", "lent"),
				"storage":        claim("lent", "1Gi", func(*corev1.PersistentVolumeClaim) {}),
			},
		},
		"no guard": {
			map[string]any{"enabled": false},
			objects{"more than the grant": pod(requests("600m", "16Mi"))},
			objects{"privileged": privileged, "a node of its choice": ofItsChoice, "NodePort": service(corev1.ServiceTypeNodePort, plain),
				"a host": ingress("bank.example.com", "any"), "a claim": claim("gold", "1Gi", func(*corev1.PersistentVolumeClaim) {})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			withValues(t, s.env, provider, map[string]any{"guard": mode.guard})
			s.awaitMode(t, mode.refused, true)
			s.awaitMode(t, mode.allowed, false)
			s.liveHonestly(t, s.attacker, s.neighbour)
		})
	}
}

// awaitMode waits until objects are refused or admitted, because the API server loads changed
// policies with a delay.
func (s *scene) awaitMode(t *testing.T, objects map[string]client.Object, wantRefused bool) {
	t.Helper()
	for what, obj := range objects {
		check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
			err := s.attacker.kubelet.Create(ctx, obj.DeepCopyObject().(client.Object), client.DryRunAll)
			if (err != nil) == wantRefused && (err == nil || e2etest.IsRefused(err)) {
				return "", nil
			}
			return fmt.Sprintf("%s refused: %v, want %v (%v)", what, err != nil, wantRefused, err), nil
		}))
	}
}

// unprivileged makes a pod meet the restricted pod security standard.
func unprivileged(pod map[string]any) {
	mainOf(pod)["securityContext"] = map[string]any{
		"allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": int64(65532),
		"capabilities": map[string]any{"drop": []any{"ALL"}}, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
	}
}

// TestGuardElsewhereModes checks that guard.elsewhere decides how a peering is guarded that an
// administrator created by hand.
func TestGuardElsewhereModes(t *testing.T) {
	env := openEmpty(t)
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
			check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
				err := steal(ctx)
				if (err != nil) == wantRefused {
					return "", nil
				}
				return fmt.Sprintf("a write to the status of its slice refused: %v, want %v (%v)", err != nil, wantRefused, err), nil
			}))
		})
	}
}

// peerByHand peers rome and the provider with liqoctl until the test ends.
func peerByHand(t *testing.T, env *local.Environment) {
	t.Helper()
	t.Cleanup(func() { check(t, env.Unpeer(context.Background(), "rome", provider)) })
	check(t, env.Peer(t.Context(), "rome", provider, "--create-resource-slice=false"))
	check(t, env.Liqoctl(t.Context(), "rome", "create", "resourceslice", "by-hand", "--remote-cluster-id="+provider, "--cpu=500m", "--memory=256Mi", "--pods=10"))
}
