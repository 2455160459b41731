package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Advertisement returns the broker's ClusterAdvertisement of a member.
func (e *Environment) Advertisement(ctx context.Context, id string) (*brokerv1alpha1.ClusterAdvertisement, error) {
	adv := &brokerv1alpha1.ClusterAdvertisement{}
	return adv, e.Broker.Get(ctx, client.ObjectKey{Namespace: e.BrokerNamespace, Name: id}, adv)
}

// AwaitAdvertised waits until the broker shows every member as active, and no member as unreachable.
func (e *Environment) AwaitAdvertised(ctx context.Context, within time.Duration) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		for id := range e.Members {
			adv, err := e.Advertisement(ctx, id)
			if err != nil {
				return "", err
			}
			if !adv.Status.Active {
				return fmt.Sprintf("ClusterAdvertisement %q to be active, it is %q", id, adv.Status.Phase), nil
			}
			if shut := adv.Status.Unreachable; len(shut) > 0 {
				return fmt.Sprintf("%q to reach %q", id, shut[0].ClusterID), nil
			}
		}
		return "", nil
	})
}

// Capacity is a member's capacity as the ClusterAdvertisement shows it.
type Capacity struct {
	// Unreserved is the capacity that no reservation holds, as text.
	Unreserved string
	// Available is the capacity that can still be reserved, and Allocatable the whole capacity.
	Available, Allocatable corev1.ResourceList
}

// unrecordedShare limits by how much Available may be outdated: by 1/unrecordedShare of a resource. The broker records
// a smaller change of the requests of a cluster's own pods, for example after a pod has ended, only when a decision
// depends on it.
const unrecordedShare = 50

// isLike reports whether both capacities have the same reserved amounts and, as far as the broker records it, the same
// Available.
func (c Capacity) isLike(other Capacity) bool {
	for name, whole := range c.Allocatable {
		have, want := c.Available[name], other.Available[name]
		difference := have.AsApproximateFloat64() - want.AsApproximateFloat64()
		if max(difference, -difference) > whole.AsApproximateFloat64()/unrecordedShare {
			return false
		}
	}
	return c.Unreserved == other.Unreserved
}

func (c Capacity) String() string {
	return "unreserved " + c.Unreserved + ", available " + words(c.Available)
}

func (e *Environment) capacity(ctx context.Context, id string) (Capacity, error) {
	adv, err := e.Advertisement(ctx, id)
	if err != nil {
		return Capacity{}, err
	}
	r := &adv.Spec.Resources
	unreserved := r.Allocatable.DeepCopy()
	for name, amount := range r.Reserved {
		rest := unreserved[name]
		rest.Sub(amount)
		unreserved[name] = rest
	}
	return Capacity{Unreserved: words(unreserved), Available: r.Available, Allocatable: r.Allocatable}, nil
}

// Available returns the capacity of every member.
func (e *Environment) Available(ctx context.Context) (map[string]Capacity, error) {
	out := map[string]Capacity{}
	for id := range e.Members {
		c, err := e.capacity(ctx, id)
		if err != nil {
			return nil, err
		}
		out[id] = c
	}
	return out, nil
}

// AwaitIdle waits until all capacity of every member is available again: nothing is reserved or used. This may take
// an interval of the agents, because an agent does not advertise a small change at once.
func (e *Environment) AwaitIdle(ctx context.Context, within time.Duration) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		for id := range e.Members {
			c, err := e.capacity(ctx, id)
			if err != nil {
				return "", err
			}
			if whole := (Capacity{words(c.Allocatable), c.Allocatable, c.Allocatable}); !c.isLike(whole) {
				return fmt.Sprintf("all of %s to be free: %v; it is %v", id, whole, c), nil
			}
		}
		return "", nil
	})
}

// AwaitAvailable waits until the capacity of every member is that in want.
func (e *Environment) AwaitAvailable(ctx context.Context, want map[string]Capacity, within time.Duration) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		got, err := e.Available(ctx)
		if err != nil || maps.EqualFunc(got, want, Capacity.isLike) {
			return "", err
		}
		return fmt.Sprintf("capacity to be %v, it is %v", want, got), nil
	})
}

func words(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.Contains(string(name), "/") {
			amount := list[name]
			parts = append(parts, fmt.Sprintf("%s %s", strings.TrimPrefix(string(name), "nvidia.com/"), amount.String()))
		}
	}
	return strings.Join(parts, ", ")
}

func amountsOf(r *agentv1alpha1.ResourceRequest) string {
	list := corev1.ResourceList(r.Spec.Resources).DeepCopy()
	if list == nil {
		list = corev1.ResourceList{}
	}
	if r.Spec.CPU != nil {
		list[corev1.ResourceCPU] = *r.Spec.CPU
	}
	if r.Spec.Memory != nil {
		list[corev1.ResourceMemory] = *r.Spec.Memory
	}
	return words(list)
}

func (e *Environment) showOffers(ctx context.Context) ([][]string, error) {
	rows := [][]string{{"CLUSTER", "PHASE", "SCORE", "ALLOCATABLE", "RESERVED", "AVAILABLE", "CPU PRICE"}}
	for _, id := range slices.Sorted(maps.Keys(e.Members)) {
		adv, err := e.Advertisement(ctx, id)
		if err != nil {
			return nil, err
		}
		price := "-"
		if c := adv.Spec.Cost; c != nil {
			price = c.CPUCost + " " + c.Currency
		}
		r := adv.Spec.Resources
		rows = append(rows, []string{id, adv.Status.Phase, adv.Status.Score, words(r.Allocatable), words(r.Reserved), words(r.Available), price})
	}
	return rows, nil
}

func candidateRows(candidates []brokerv1alpha1.Candidate) [][]string {
	rows := [][]string{{"CANDIDATE", "SCORE", "CRITERIA", "VERDICT"}}
	for _, c := range candidates {
		var criteria []string
		for _, name := range slices.Sorted(maps.Keys(c.Criteria)) {
			criteria = append(criteria, name+" "+c.Criteria[name])
		}
		verdict := "chosen"
		if c.Reason != "" {
			verdict = strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
		rows = append(rows, []string{c.ClusterID, c.Score, strings.Join(criteria, ", "), verdict})
	}
	return rows
}

// EnsureNamespace creates a namespace unless it exists. If the namespace is being deleted, it first waits until it is
// gone.
func (e *Environment) EnsureNamespace(ctx context.Context, c *Cluster, name string) error {
	return Await(ctx, settledWithin, func(ctx context.Context) (string, error) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := c.Create(ctx, ns)
		if apierrors.IsAlreadyExists(err) {
			if err = c.Get(ctx, client.ObjectKeyFromObject(ns), ns); err == nil && ns.DeletionTimestamp != nil {
				return fmt.Sprintf("namespace %q to be gone", name), nil
			}
		}
		return "", err
	})
}

// Ask applies the ResourceRequest in a manifest, and returns it.
func (c *Cluster) Ask(ctx context.Context, namespace string, manifest []byte, change ...func(*unstructured.Unstructured)) (*agentv1alpha1.ResourceRequest, error) {
	change = append(change, func(u *unstructured.Unstructured) { u.SetNamespace(namespace) })
	objects, err := c.Apply(ctx, manifest, change...)
	if err != nil {
		return nil, err
	}
	r := &agentv1alpha1.ResourceRequest{}
	return r, c.Get(ctx, client.ObjectKeyFromObject(objects[0]), r)
}

// AwaitPhase waits until a request is in one of the given phases. It reads the request into r.
func (c *Cluster) AwaitPhase(ctx context.Context, r *agentv1alpha1.ResourceRequest, within time.Duration, phases ...agentv1alpha1.ResourceRequestPhase) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return "", err
		}
		if slices.Contains(phases, r.Status.Phase) {
			return "", nil
		}
		return fmt.Sprintf("ResourceRequest %q to be %v, it is %s: %s", r.Name, phases, r.Status.Phase, r.Status.Message), nil
	})
}

// AwaitCondition waits until a condition of a request is true. Meanwhile, it calls say with every new message of the
// request. It reads the request into r.
func (c *Cluster) AwaitCondition(ctx context.Context, r *agentv1alpha1.ResourceRequest, within time.Duration, condition string, say func(string)) error {
	said := ""
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return "", err
		}
		if message := r.Status.Message; say != nil && message != said {
			said = message
			say(message)
		}
		if meta.IsStatusConditionTrue(r.Status.Conditions, condition) {
			return "", nil
		}
		return fmt.Sprintf("ResourceRequest %q to be %s, it is %s: %s", r.Name, condition, r.Status.Phase, r.Status.Message), nil
	})
}

// DeleteAndWait deletes an object and waits until it is gone.
func (c *Cluster) DeleteAndWait(ctx context.Context, obj client.Object, within time.Duration) error {
	if err := client.IgnoreNotFound(c.Delete(ctx, obj)); err != nil {
		return err
	}
	return c.AwaitGone(ctx, obj, within)
}

// AwaitGone waits until an object is gone. It does not delete it.
func (c *Cluster) AwaitGone(ctx context.Context, obj client.Object, within time.Duration) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		waiting := fmt.Sprintf("%T %q to be gone", obj, obj.GetName())
		if r, ok := obj.(*agentv1alpha1.ResourceRequest); ok {
			waiting += ": " + r.Status.Message + c.describeInstructions(ctx, r)
		}
		return waiting, err
	})
}

// describeInstructions returns the state of the instructions of a request.
func (c *Cluster) describeInstructions(ctx context.Context, r *agentv1alpha1.ResourceRequest) string {
	list := &agentv1alpha1.ReservationInstructionList{}
	if err := c.List(ctx, list); err != nil {
		return "; its instructions: " + err.Error()
	}
	var out strings.Builder
	for i := range list.Items {
		inst := &list.Items[i]
		if inst.Spec.ReservationName != r.Status.ReservationName {
			continue
		}
		fmt.Fprintf(&out, "; %s is %s", inst.Name, inst.Status.Phase)
		for _, condition := range inst.Status.Conditions {
			fmt.Fprintf(&out, ", %s=%s: %s", condition.Type, condition.Status, condition.Message)
		}
	}
	return out.String()
}

// settledWithin is how long the clusters may take for one small step on a slow machine.
const settledWithin = 3 * time.Minute

// OnReservation returns a node selector for the virtual node of a reservation.
func OnReservation(name string) map[string]string {
	return map[string]string{agentv1alpha1.ReservationLabel: name}
}

// Deploy applies a Deployment whose pods run only on nodes with the given labels.
func (c *Cluster) Deploy(ctx context.Context, namespace string, manifest []byte, nodes map[string]string, change ...func(*unstructured.Unstructured)) error {
	change = append(change, func(u *unstructured.Unstructured) {
		u.SetNamespace(namespace)
		_ = unstructured.SetNestedStringMap(u.Object, nodes, "spec", "template", "spec", "nodeSelector")
	})
	_, err := c.Apply(ctx, manifest, change...)
	return err
}

// AwaitPods waits until at least n pods of a namespace run on a node, and returns them.
func (c *Cluster) AwaitPods(ctx context.Context, namespace string, n int, node string, within time.Duration) ([]corev1.Pod, error) {
	var running []corev1.Pod
	err := Await(ctx, within, func(ctx context.Context) (string, error) {
		list := &corev1.PodList{}
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		running = running[:0]
		var states []string
		for _, p := range list.Items {
			if p.Spec.NodeName == node && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running = append(running, p)
			}
			states = append(states, fmt.Sprintf("%s %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName))
		}
		if len(running) >= n {
			return "", nil
		}
		return fmt.Sprintf("%d pods to run on %q, there are: %v", n, node, states), nil
	})
	return running, err
}

// Twins returns the copies that a provider has of a consumer's pods. It waits until all of them run.
func (e *Environment) Twins(ctx context.Context, provider string, pods []corev1.Pod) ([]corev1.Pod, error) {
	var twins []corev1.Pod
	err := Await(ctx, settledWithin, func(ctx context.Context) (string, error) {
		list := &corev1.PodList{}
		if err := e.Member(provider).List(ctx, list); err != nil {
			return "", err
		}
		twins = twins[:0]
		for _, p := range list.Items {
			if slices.ContainsFunc(pods, func(q corev1.Pod) bool { return q.Name == p.Name }) && p.Status.Phase == corev1.PodRunning {
				twins = append(twins, p)
			}
		}
		if len(twins) == len(pods) {
			return "", nil
		}
		return fmt.Sprintf("%d twins to run in %s, %d do", len(pods), provider, len(twins)), nil
	})
	return twins, err
}

func podRows(pods []corev1.Pod) [][]string {
	rows := [][]string{{"NAMESPACE", "POD", "STATUS", "NODE"}}
	for _, p := range pods {
		rows = append(rows, []string{p.Namespace, p.Name, string(p.Status.Phase), p.Spec.NodeName})
	}
	return rows
}

func (c *Cluster) nodeRows(ctx context.Context) ([][]string, error) {
	list := &corev1.NodeList{}
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	rows := [][]string{{"NAME", "STATUS", "VIRTUAL", "ALLOCATABLE"}}
	for _, n := range list.Items {
		status, virtual := "NotReady", ""
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
		if n.Labels["liqo.io/type"] == "virtual-node" {
			virtual = "yes, of " + n.Labels["liqo.io/remote-cluster-id"]
		}
		rows = append(rows, []string{n.Name, status, virtual, words(n.Status.Allocatable)})
	}
	return rows, nil
}

// DeleteDeployments deletes all Deployments of a namespace, and waits until their pods are gone.
func (c *Cluster) DeleteDeployments(ctx context.Context, namespace string) error {
	if err := c.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	return Await(ctx, settledWithin, func(ctx context.Context) (string, error) {
		list := &corev1.PodList{}
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil || len(list.Items) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d pods of namespace %q to be gone", len(list.Items), namespace), nil
	})
}

// leftovers are the kinds of objects that must not exist after the last reservation has ended.
var leftovers = []schema.GroupVersionKind{
	{Group: "liqo.io", Version: "v1alpha1", Kind: "ReservationInstruction"},
	{Group: "liqo.io", Version: "v1alpha1", Kind: "ProviderInstruction"},
	{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "Tenant"},
	{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "Identity"},
	{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "ResourceSlice"},
	{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "Renew"},
	{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "VirtualNode"},
	{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "NamespaceMap"},
	{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "NamespaceOffloading"},
	{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "Quota"},
	{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "ShadowPod"},
	{Group: "core.liqo.io", Version: "v1beta1", Kind: "ForeignCluster"},
}

// AwaitClean waits until no member has an object that a peering left behind.
func (e *Environment) AwaitClean(ctx context.Context, within time.Duration) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		for _, id := range slices.Sorted(maps.Keys(e.Members)) {
			left, err := e.Member(id).Leftovers(ctx)
			if err != nil {
				return "", err
			}
			if len(left) > 0 {
				return fmt.Sprintf("%s to be clean, left: %s", id, strings.Join(left, ", ")), nil
			}
		}
		return "", nil
	})
}

// Leftovers returns the names of the objects that peerings left behind in a cluster.
func (c *Cluster) Leftovers(ctx context.Context) ([]string, error) {
	var left []string
	for _, gvk := range leftovers {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			left = append(left, gvk.Kind+" "+item.GetName())
		}
	}
	namespaces := &corev1.NamespaceList{}
	if err := c.List(ctx, namespaces, client.HasLabels{"liqo.io/tenant-namespace"}); err != nil {
		return nil, err
	}
	for _, ns := range namespaces.Items {
		left = append(left, "Namespace "+ns.Name)
	}
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes, client.MatchingLabels{"liqo.io/type": "virtual-node"}); err != nil {
		return nil, err
	}
	for _, n := range nodes.Items {
		left = append(left, "Node "+n.Name)
	}
	return left, nil
}
