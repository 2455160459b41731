package capacity

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestWatcherFollowsTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "0b0b6f6e-8a53-4c86-9a3c-6f9f1f1c0a01"},
			Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{container("a", list("cpu", "1"))}},
		}
		client := fake.NewClientset(readyNode(func(*corev1.Node) {}), pod)
		w := New(client)
		runtest.Start(t, w)

		<-w.Synced()
		<-w.Changed()
		// The fake clientset loses changes between its list and its watch.
		synctest.Wait()
		expect := func(allocated quantity.Amounts, request quantity.Amounts, fits bool) {
			t.Helper()
			s := w.Snapshot()
			if diff := cmp.Diff(allocated, s.Allocated, sameFigures); diff != "" {
				t.Errorf("allocated (-want +got):\n%s", diff)
			}
			if s.Nodes != 1 || !s.Capacity.Equal(quantity.Amounts{"cpu": 4000}) || !s.Allocatable.Equal(quantity.Amounts{"cpu": 3000}) {
				t.Errorf("snapshot %+v", s)
			}
			if shortage, ok := w.Fits(request); ok != fits {
				t.Errorf("%v fits: %v (%+v)", request, ok, shortage)
			}
		}
		expect(quantity.Amounts{"cpu": 1000, "pods": 1}, quantity.Amounts{"cpu": 2001}, false)

		finished := pod.DeepCopy()
		finished.Status.Phase = corev1.PodSucceeded
		if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), finished, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-w.Changed()
		expect(nil, quantity.Amounts{"cpu": 3000}, true)

		// A change that affects no figure sends no signal.
		finished.Labels = map[string]string{"a": "b"}
		if _, err := client.CoreV1().Pods("default").Update(t.Context(), finished, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-w.Changed():
			t.Error("a label was reported as a change of capacity")
		default:
		}
	})
}

// All nodes of a group are counted, lent or not, and its labels are part of node shapes.
func TestNodesOfGroupsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := func(name, pool string, unschedulable bool) *corev1.Node {
			return readyNode(func(n *corev1.Node) {
				n.Name, n.Labels, n.Spec.Unschedulable = name, map[string]string{"pool": pool}, unschedulable
			})
		}
		w := New(fake.NewClientset(node("n1", "small", false), node("n2", "large", false), node("n3", "large", true), node("n4", "other", false)))
		w.Lend(labels.Everything(), nil, []map[string]string{{"pool": "large"}, {"pool": "none"}})
		runtest.Start(t, w)
		<-w.Synced()
		s := w.Snapshot()
		if diff := cmp.Diff([]int64{2, 0}, s.NodesPerGroup); diff != "" {
			t.Errorf("nodes by group (-want +got):\n%s", diff)
		}
		if len(s.NodeShapes) != 3 || s.NodeShapes[0].Labels["pool"] == "" {
			t.Errorf("shapes %+v, want one for each pool", s.NodeShapes)
		}
	})
}

// Nodes that are not lent do not count, just as cordoned ones. When they are lent again, their
// pods count again.
func TestOnlyLentNodesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := readyNode(func(n *corev1.Node) { n.Name, n.Labels = "n2", map[string]string{"pool": "lend"} })
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "0b0b6f6e-8a53-4c86-9a3c-6f9f1f1c0a01"},
			Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{container("a", list("cpu", "1"))}},
		}
		w := New(fake.NewClientset(readyNode(func(*corev1.Node) {}), other, pod))
		selects := func(text string) {
			t.Helper()
			selector, err := labels.Parse(text)
			runtest.Check(t, err)
			w.Lend(selector, nil, nil)
			synctest.Wait()
		}
		expect := func(nodes int, allocatable, allocated int64) {
			t.Helper()
			s := w.Snapshot()
			if s.Nodes != nodes || s.Allocatable["cpu"] != allocatable || s.Allocated["cpu"] != allocated || s.Capacity["cpu"] != 8000 {
				t.Errorf("%+v, want %d nodes with %d of 8000, %d allocated", s, nodes, allocatable, allocated)
			}
		}
		selects("pool=lend")
		runtest.Start(t, w)
		<-w.Synced()
		<-w.Changed()
		expect(1, 3000, 0)

		selects("")
		<-w.Changed()
		expect(2, 6000, 1000)
		selects("pool!=lend")
		<-w.Changed()
		expect(1, 3000, 1000)
		selects("pool!=lend")
		selects("pool in (lend,spare),!pool")
		<-w.Changed()
		expect(0, 0, 0)
	})
}

func TestPlaceholdersAreNoUsage(t *testing.T) {
	const holds = "broker-system"
	pod := func(namespace, placement, uid string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: uid, UID: types.UID("0b0b6f6e-8a53-4c86-9a3c-6f9f1f1c0a0" + uid)}}
		p.Spec = corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{container("a", list("cpu", "1"))}}
		if placement != "" {
			p.Labels = map[string]string{agentv1alpha1.PlaceholderLabel: placement}
		}
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(readyNode(func(*corev1.Node) {}),
			pod(holds, "res-abcdefghij-1", "1"), pod(holds, "", "2"), pod("elsewhere", "res-abcdefghij-1", "3"))
		w := New(client).PlaceholdersIn(holds)
		runtest.Start(t, w)
		<-w.Synced()
		// A pod of another namespace is ordinary, even with the label of a placeholder.
		if got := w.Snapshot().Allocated; !got.Equal(quantity.Amounts{"cpu": 2000, "pods": 2}) {
			t.Errorf("allocated: %v, want that of the other two", got)
		}
		room := w.Room([]string{"n1", "n2", ""})
		if diff := cmp.Diff(map[string]quantity.Amounts{"n1": {"cpu": 1000}}, room); diff != "" {
			t.Errorf("room (-want +got):\n%s", diff)
		}
	})
}

// Unschedulable placeholders are not pending: they represent reservations of other clusters.
func TestPendingIsWhatOwnPodsWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func(namespace, name string) *corev1.Pod {
			return &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container("a", list("cpu", "1"))}},
				Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{unscheduled(corev1.PodReasonUnschedulable)}},
			}
		}
		placeholder := pod("broker-system", "placeholder")
		placeholder.Labels = map[string]string{agentv1alpha1.PlaceholderLabel: "res-abcdefghij-1"}
		client := fake.NewClientset(placeholder, pod("default", "p"))
		w := New(client).PlaceholdersIn("broker-system")
		runtest.Start(t, w)
		<-w.Synced()
		<-w.Changed()
		synctest.Wait()
		expect := func(want quantity.Amounts) {
			t.Helper()
			if got := w.Snapshot().Pending; !got.Equal(want) {
				t.Errorf("%v is pending, want %v", got, want)
			}
		}
		expect(quantity.Amounts{"cpu": 1000, "pods": 1})

		untried := pod("default", "q")
		untried.Status.Conditions = nil
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), untried, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-w.Changed():
			t.Error("a pod that may be bound in a moment was reported as a change")
		default:
		}
		runtest.Check(t, client.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}))
		<-w.Changed()
		expect(nil)
	})
}

func TestUseOf(t *testing.T) {
	shadow := []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "p", Controller: new(true)}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", list("cpu", "1"))}}}
	if _, ok := UseOf(pod); ok {
		t.Error("a pod of the cluster's own is of use to a placement")
	}
	pod.Labels, pod.OwnerReferences = map[string]string{originNodeLabel: "res-abcdefghij-2"}, shadow
	pod.Status.Phase = corev1.PodFailed
	want := Use{Placement: "res-abcdefghij-2", Request: quantity.Amounts{"cpu": 1000, "memory": 0, "pods": 1}, Over: true}
	if got, ok := UseOf(pod); !ok || !cmp.Equal(want, got) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Readers of node labels never see a node that was listed before those labels were requested.
func TestLabelsOfLentNodesAreKeptOnceAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		priced := readyNode(func(n *corev1.Node) { n.Labels = map[string]string{"price": "1", "else": "x"} })
		cordoned := readyNode(func(n *corev1.Node) { n.Name, n.Spec.Unschedulable = "n2", true })
		client := fake.NewClientset(priced, cordoned)
		w := New(client)
		var seen int64
		expect := func(want ...LentNode) {
			t.Helper()
			nodes, revision := w.Lent(seen)
			if diff := cmp.Diff(want, nodes, sameFigures); diff != "" || revision == seen {
				t.Errorf("revision %d after %d (-want +got):\n%s", revision, seen, diff)
			}
			if again, same := w.Lent(revision); again != nil || same != revision {
				t.Errorf("revision %d is told again, as %d: %v", revision, same, again)
			}
			seen = revision
		}
		node := func(labels map[string]string) LentNode {
			return LentNode{Name: "n1", Allocatable: quantity.Amounts{"cpu": 3000}, Labels: labels}
		}
		if nodes, revision := w.Lent(0); nodes != nil || revision != 0 {
			t.Errorf("before the first list: %v of revision %d", nodes, revision)
		}
		runtest.Start(t, w)
		<-w.Synced()
		<-w.Changed()
		synctest.Wait()
		expect(node(nil))

		w.Lend(labels.Everything(), nil, nil, "price", "other")
		if nodes, revision := w.Lent(0); nodes != nil || revision != 0 {
			t.Errorf("listed without the labels: %v of revision %d", nodes, revision)
		}
		<-w.Changed()
		synctest.Wait()
		expect(node(map[string]string{"price": "1"}))

		dearer := priced.DeepCopy()
		dearer.Labels["price"] = "2"
		if _, err := client.CoreV1().Nodes().Update(t.Context(), dearer, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-w.Changed()
		expect(node(map[string]string{"price": "2"}))
	})
}

func TestNodesOfTheControlPlaneAreLendableWhereTheyTakeOrdinaryPods(t *testing.T) {
	plane := func(name string, labelled, tainted bool) *corev1.Node {
		return readyNode(func(n *corev1.Node) {
			n.Name = name
			if labelled {
				n.Labels[controlPlaneRole] = ""
			}
			if tainted {
				n.Spec.Taints = []corev1.Taint{{Key: controlPlaneRole, Effect: corev1.TaintEffectNoSchedule}}
			}
		})
	}
	for name, tc := range map[string]struct {
		nodes []*corev1.Node
		want  Lendable
	}{
		"workers alone":                   {[]*corev1.Node{plane("w", false, false)}, Lendable{}},
		"a control plane of its own":      {[]*corev1.Node{plane("w", false, false), plane("c", true, true)}, Lendable{}},
		"one node that is everything":     {[]*corev1.Node{plane("c", true, false)}, Lendable{ControlPlanes: true}},
		"a barred node without the label": {[]*corev1.Node{plane("x", false, true)}, Lendable{Barred: []string{"x"}}},
		"a barred node that keeps every pod of a consumer off": {[]*corev1.Node{readyNode(func(n *corev1.Node) {
			n.Name = "x"
			n.Spec.Taints = []corev1.Taint{{Key: controlPlaneRole, Effect: corev1.TaintEffectNoSchedule}, {Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
		})}, Lendable{}},
		"one control plane takes pods, another does not": {[]*corev1.Node{plane("c", true, false), plane("d", true, true)}, Lendable{ControlPlanes: true, Barred: []string{"d"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(fake.NewClientset())
			if _, known := w.Lendable(); known {
				t.Error("before the first list nothing is known")
			}
			facts := map[string]nodeFacts{}
			for _, n := range tc.nodes {
				facts[n.Name] = factsOfNode(n, nil, everything)
			}
			w.nodesKnown = true
			w.accounts.replaceNodes(facts)
			got, known := w.Lendable()
			got.Nodes = nil
			if diff := cmp.Diff(tc.want, got); diff != "" || !known {
				t.Errorf("known %t (-want +got):\n%s", known, diff)
			}
		})
	}
}
