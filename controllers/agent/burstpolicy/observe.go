package burstpolicy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/owned"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Defaults of spec.after and spec.idleAfter.
const (
	defaultAfter     = 30 * time.Second
	defaultIdleAfter = 10 * time.Minute
)

// scene holds everything that one reconcile has read about a policy.
type scene struct {
	policy   *agentv1alpha1.BurstPolicy
	now      time.Time
	rules    burst.Rules
	grouping burst.Grouping
	// requests are the policy's requests, sorted by name. views are the same requests in the form that burst.MakePlan
	// needs, in the same order.
	requests []request
	views    []burst.Request
	// taken has the names of the ResourceRequests in the namespace that do not belong to the policy.
	taken map[string]bool
	// open is true if the webhooks of Liqo or of the agent prepare new pods of the namespace for virtual nodes.
	open bool
	// barred is true if the agent's webhook leaves the namespace out.
	barred bool
	// refused are the policy's groups for which the API server has refused a request, and its requests whose end it has
	// refused. Such a request counts as in use, so that it ends later.
	refused map[string]refusal
}

// request is a ResourceRequest of the policy with its virtual nodes. It has two virtual nodes while its reservation
// moves to another provider.
type request struct {
	*agentv1alpha1.ResourceRequest
	nodes []corev1.Node
}

func (r *Reconciler) observePolicy(ctx context.Context, policy *agentv1alpha1.BurstPolicy) (*scene, error) {
	s := &scene{policy: policy, now: r.options.Clock.Now(), taken: map[string]bool{}}
	limit, err := readLimit(policy)
	if err != nil {
		return nil, err
	}
	s.rules = burst.Rules{
		Policy: policy.Name, Limit: limit,
		After:     ptr.Deref(policy.Spec.After, metav1.Duration{Duration: defaultAfter}).Duration,
		IdleAfter: ptr.Deref(policy.Spec.IdleAfter, metav1.Duration{Duration: defaultIdleAfter}).Duration,
	}
	if last := policy.Status.LastChange; last != nil {
		s.rules.Last, s.rules.LastAt = burst.Change{Action: last.Action, Request: last.Request, Pods: int64(last.Pods)}, last.At.Time
	}
	template, err := json.Marshal(policy.Spec.Template)
	if err != nil {
		return nil, err
	}
	s.grouping = burst.GroupPods(r.options.Pods.Waiting(client.ObjectKeyFromObject(policy)), string(policy.UID)+string(template), policy.Spec.Template.Spec.Constraints, limit)
	s.barred = slices.Contains(r.options.Barred, policy.Namespace)
	if s.open, err = r.isOpen(ctx, policy.Namespace, s.barred); err != nil {
		return nil, err
	}
	if !s.open {
		s.grouping.Groups = nil // nothing is borrowed without the administrator's consent
	}
	s.refused = r.refused[client.ObjectKeyFromObject(policy)]
	maps.DeleteFunc(s.refused, func(_ string, old refusal) bool { return !old.until.After(s.now) })
	for i := range s.grouping.Groups {
		g := &s.grouping.Groups[i]
		g.RefusedUntil = s.refused[g.ID].until
	}
	return s, r.observeRequests(ctx, s)
}

// invalidSpec is the error for a policy that cannot be carried out until a user edits it, so that retries are useless.
type invalidSpec struct{ error }

// readLimit returns the limit of a policy. It refuses names of resources that no node can have, because a misspelt name
// would limit nothing.
func readLimit(policy *agentv1alpha1.BurstPolicy) (quantity.Amounts, error) {
	for name := range policy.Spec.Limit {
		if err := quantity.CheckName(name); err != nil {
			return nil, &invalidSpec{fmt.Errorf("spec.limit[%s]: %w", name, err)}
		}
	}
	limit, err := quantity.FromResourceList(corev1.ResourceList(policy.Spec.Limit))
	if err != nil {
		return nil, &invalidSpec{fmt.Errorf("spec.limit: %w", err)}
	}
	return limit, nil
}

// isOpen reports whether the webhooks of the agent or of Liqo prepare new pods of a namespace for virtual nodes.
func (r *Reconciler) isOpen(ctx context.Context, namespace string, barred bool) (bool, error) {
	ns := &corev1.Namespace{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return false, fmt.Errorf("read namespace %q: %w", namespace, err)
	}
	return !barred && ns.Labels[agentv1alpha1.BurstNamespaceLabel] == "true" || ns.Labels["liqo.io/scheduling-enabled"] == "true", nil
}

func (r *Reconciler) observeRequests(ctx context.Context, s *scene) error {
	var list agentv1alpha1.ResourceRequestList
	if err := r.client.List(ctx, &list, client.InNamespace(s.policy.Namespace)); err != nil {
		return fmt.Errorf("list resource requests of namespace %q: %w", s.policy.Namespace, err)
	}
	slices.SortFunc(list.Items, func(a, b agentv1alpha1.ResourceRequest) int { return strings.Compare(a.Name, b.Name) })
	waiting := map[string]bool{}
	for _, g := range s.grouping.Groups {
		waiting[g.ID] = true
	}
	var known []string
	for i := range list.Items {
		rr := &list.Items[i]
		if !metav1.IsControlledBy(rr, s.policy) {
			s.taken[rr.Name] = true
			continue
		}
		nodes, err := owned.NodesOf(ctx, r.client, rr)
		if err != nil {
			return err
		}
		one, view := request{rr, nodes}, burst.ReadRequest(rr, nodes)
		view.Group = burst.GroupOf(s.policy.Name, rr.Name)
		inUse, arrivals, used := r.usageOf(&one)
		view.Used = used
		id := string(rr.UID) + "/" + rr.Name
		if view.State == burst.Over {
			view.OverAt = r.idle.ObserveOver(id, s.now)
		} else {
			view.IdleSince = r.idle.Observe(id, inUse || !view.Cordoned && waiting[view.Group] || s.refused[rr.Name].why != "", arrivals, s.now)
		}
		known = append(known, id)
		s.requests, s.views = append(s.requests, one), append(s.views, view)
	}
	r.forgetExcept(client.ObjectKeyFromObject(s.policy), known)
	return nil
}

// forgetExcept drops the idle times of all requests of a policy except the known ones.
func (r *Reconciler) forgetExcept(policy types.NamespacedName, known []string) {
	for _, id := range r.known[policy] {
		if !slices.Contains(known, id) {
			r.idle.Forget(id)
		}
	}
	r.known[policy] = known
}

// usageOf returns whether pods of workloads are on the nodes of a request, how many such pods have ever come to them,
// and the sum of the requests of all pods there. A node whose pods have not been counted yet is in use.
func (r *Reconciler) usageOf(rr *request) (inUse bool, arrivals uint64, used quantity.Amounts) {
	used = quantity.Amounts{}
	for i := range rr.nodes {
		name := rr.nodes[i].Name
		guests, known := r.options.Pods.GuestsOn(name)
		inUse = inUse || !known || guests.Now > 0
		arrivals += guests.Came
		used.AddInPlace(r.options.Pods.OwnRequestsOn(name))
	}
	return inUse, arrivals, used
}

func (s *scene) findRequest(name string) *request {
	i, found := slices.BinarySearchFunc(s.requests, name, func(r request, name string) int { return cmp.Compare(r.Name, name) })
	if !found {
		return nil
	}
	return &s.requests[i]
}
