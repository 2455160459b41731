package attacks

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestPodsOfOtherNamespacesStayOffReservedNodes lets a user of one namespace create pods for
// capacity that another namespace of the consumer has reserved.
func TestPodsOfOtherNamespacesStayOffReservedNodes(t *testing.T) {
	s := open(t)
	const team, user = "e2e-team", "alice"
	home := s.attacker.home
	createTeam(t, s, team, user)
	victim := s.attacker.request.Status.ReservationName
	older := s.attacker.pendingPod(t, team)
	own, err := home.Request(t.Context(), team, "own", grant(), at(provider))
	check(t, err)
	t.Cleanup(func() { check(t, home.DeleteAndWait(context.Background(), own, patience)) })
	check(t, home.AwaitReady(t.Context(), own, patience))
	config := *home.Config
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	alice, err := e2e.NewCluster(user, &config, "")
	check(t, err)

	tolerate := func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	made := map[string]*corev1.Pod{}
	for name, change := range map[string]func(pod *corev1.Pod){
		"by the reservation's label": func(pod *corev1.Pod) { pod.Spec.NodeSelector = e2e.OnReservation(victim) },
		"by the reservation's label and every toleration": func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = e2e.OnReservation(victim)
			tolerate(pod)
		},
		"by the node's name": func(pod *corev1.Pod) { pod.Spec.NodeName = s.attacker.slice },
		"by an affinity to the node": func(pod *corev1.Pod) {
			tolerate(pod)
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{s.attacker.slice}},
				}}},
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: named(team, unused("stolen")), Spec: s.attacker.honestPod("stolen").Spec}
			pod.Spec.NodeSelector = nil
			change(pod)
			if err := alice.Create(t.Context(), pod); err != nil {
				refused(t, err)
				return
			}
			made[name] = pod
		})
	}
	t.Cleanup(func() {
		for _, pod := range made {
			check(t, home.DeleteAndWait(context.Background(), pod, patience))
		}
	})
	s.attacker.awaitOwnPod(t)
	for name, pod := range made {
		check(t, home.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		if pod.Spec.NodeName == s.attacker.slice && pod.Status.Phase == corev1.PodRunning {
			t.Errorf("%s: a pod of namespace %q runs on %s, which namespace %q reserved", name, team, pod.Spec.NodeName, namespace)
		}
	}
	t.Run("by a toleration for a pod older than the request", func(t *testing.T) {
		before := older.DeepCopy()
		older.Spec.Tolerations = append(older.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		refused(t, alice.Patch(t.Context(), older, client.MergeFrom(before)))
	})
	t.Run("by a Binding", func(t *testing.T) {
		allowBindings(t, home, team, user)
		target := corev1.ObjectReference{Kind: "Node", Name: s.attacker.slice}
		refused(t, alice.Create(t.Context(), &corev1.Binding{ObjectMeta: named(team, older.Name), Target: target}))
		refused(t, alice.SubResource("binding").Create(t.Context(), older, &corev1.Binding{Target: target}))
	})
}

// pendingPod creates a pod that selects the tenant's reserved node without tolerating it.
func (c *tenant) pendingPod(t *testing.T, in string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: named(in, unused("older")), Spec: c.honestPod("older").Spec}
	pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": c.slice}
	check(t, c.home.Create(t.Context(), pod))
	t.Cleanup(func() { check(t, c.home.DeleteAndWait(context.Background(), pod, patience)) })
	return pod
}

// allowBindings lets a user bind pods to nodes, which the role edit does not.
func allowBindings(t *testing.T, home *e2e.Cluster, team, user string) {
	t.Helper()
	check(t, home.Create(t.Context(), &rbacv1.Role{ObjectMeta: named(team, "bind"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"bindings", "pods/binding"}, Verbs: []string{"create"}},
	}}))
	check(t, home.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named(team, "bind"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "bind"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}

// awaitOwnPod runs a pod of the tenant on its reserved node. The scheduler, Liqo and the provider
// have then dealt with every pod that was created before.
func (c *tenant) awaitOwnPod(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: named(namespace, unused("own")), Spec: c.honestPod("own").Spec}
	check(t, c.home.Create(t.Context(), pod))
	t.Cleanup(func() { check(t, c.home.DeleteAndWait(context.Background(), pod, patience)) })
	_, err := c.home.AwaitPods(t.Context(), namespace, 1, c.slice, patience)
	check(t, err)
}

// TestPodsThatAreNotOffloadedTakeNoReservedRoom checks pods of a namespace that is not offloaded.
// They never run at the provider, but a pod that is scheduled to the node would still take room
// from eligible pods.
func TestPodsThatAreNotOffloadedTakeNoReservedRoom(t *testing.T) {
	s := open(t)
	const team, user = "e2e-strangers", "bob"
	home := s.attacker.home
	createTeam(t, s, team, user)
	config := *home.Config
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	bob, err := e2e.NewCluster(user, &config, "")
	check(t, err)
	stranger := func(tolerations ...corev1.Toleration) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: named(team, unused("stranger")), Spec: s.attacker.honestPod("stranger").Spec}
		pod.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": s.attacker.slice}
		pod.Spec.Tolerations = tolerations
		return pod
	}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	liqos := corev1.Toleration{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	for name, toleration := range map[string]corev1.Toleration{"with Liqo's toleration": liqos, "with every toleration": everything} {
		t.Run(name, func(t *testing.T) {
			pod := stranger(toleration)
			check(t, bob.Create(t.Context(), pod))
			t.Cleanup(func() { check(t, home.DeleteAndWait(context.Background(), pod, patience)) })
			s.attacker.awaitOwnPod(t)
			check(t, home.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			if pod.Spec.NodeName != "" {
				t.Errorf("a pod of namespace %q takes room on %s", team, pod.Spec.NodeName)
			}
		})
	}
	t.Run("with a toleration that comes later", func(t *testing.T) {
		pod := stranger()
		check(t, bob.Create(t.Context(), pod))
		t.Cleanup(func() { check(t, home.DeleteAndWait(context.Background(), pod, patience)) })
		before := pod.DeepCopy()
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, liqos)
		refused(t, bob.Patch(t.Context(), pod, client.MergeFrom(before)))
	})
}

// createTeam creates a namespace at rome for one test and lets the user edit in it.
func createTeam(t *testing.T, s *scene, team, user string) {
	t.Helper()
	home := s.attacker.home
	check(t, s.env.EnsureNamespace(t.Context(), home, team))
	t.Cleanup(func() {
		check(t, home.DeleteAndWait(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, patience))
	})
	check(t, home.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named(team, "edit"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
}
