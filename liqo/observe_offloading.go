package liqo

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func (p consumerSide) observeOffloading(ctx context.Context, s *consumerScene) error {
	s.offloading = map[string]*offloadingv1beta1.NamespaceOffloading{}
	for _, name := range s.inst.Spec.Namespaces {
		v := plan.OffloadingView{Name: name, Wish: plan.WishOf(s.inst.Spec.Offloading)}
		var ns corev1.Namespace
		found, err := object.Get(ctx, s.reader, "", name, &ns)
		if err != nil {
			return err
		}
		v.NamespaceEnding = found && ns.DeletionTimestamp != nil
		v.NamespaceExists = found && !v.NamespaceEnding
		v.Labelled = ns.Labels[consts.SchedulingLiqoLabel] == consts.SchedulingLiqoLabelValue
		v.SameName = ns.Labels[agentv1alpha1.SameNameLabel] == "true"
		var o offloadingv1beta1.NamespaceOffloading
		if found, err = object.Get(ctx, s.reader, name, object.OffloadingName, &o); err != nil {
			return err
		}
		if found {
			s.offloading[name] = &o
			v.ObjectView, v.Selected, v.Phase = object.ViewOf(&o), selectedProviders(&o), string(o.Status.OffloadingPhase)
			v.InForce = plan.Strategy{Pods: o.Spec.PodOffloadingStrategy, Names: o.Spec.NamespaceMappingStrategy}
			v.Required = remoteCondition(&o, s.Provider, offloadingv1beta1.NamespaceOffloadingRequired)
			v.Ready = remoteCondition(&o, s.Provider, offloadingv1beta1.NamespaceReady)
		}
		claims, err := p.listClaims(ctx, s, &v)
		if err != nil {
			return err
		}
		v.Wanted = plan.Agree(v.InForce, claims)
		s.Offloading = append(s.Offloading, v)
	}
	return nil
}

// listClaims returns the offloading that each placement wants for the namespace, oldest first. It
// includes ended placements while their node may still have pods: if their provider were removed
// from the offloading, Liqo would delete the remote namespace and kill these pods. It leaves out
// placements that ask for EnforceSameName, unless the namespace has the label that allows this or
// is already offloaded under its own name.
func (p consumerSide) listClaims(ctx context.Context, s *consumerScene, v *plan.OffloadingView) (claims []plan.Claim, err error) {
	const sameName = offloadingv1beta1.EnforceSameNameMappingStrategyType
	mayHaveItsName := v.SameName || v.Exists && v.InForce.Names == sameName
	named := oldestFirst(s.all, func(i *agentv1alpha1.ReservationInstruction) bool { return slices.Contains(i.Spec.Namespaces, v.Name) })
	for _, inst := range named {
		strategy := plan.WishOf(inst.Spec.Offloading).WithDefaults()
		if strategy.Names == sameName && !mayHaveItsName {
			continue
		}
		holds, err := s.holdsNode(ctx, inst)
		if err != nil {
			return nil, err
		}
		if holds {
			claims = append(claims, plan.Claim{Provider: inst.Spec.TargetClusterID, Request: servedBy(inst), Strategy: strategy})
		}
	}
	return claims, nil
}

func servedBy(inst *agentv1alpha1.ReservationInstruction) string {
	if ref := inst.Spec.RequestRef; ref != nil {
		return `request "` + ref.Namespace + "/" + ref.Name + `"`
	}
	return `reservation "` + inst.Spec.ReservationName + `"`
}

// holdsNode reports whether the placement's virtual node has pods, or may still get some.
func (s *consumerScene) holdsNode(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (bool, error) {
	switch {
	case inst.UID == s.inst.UID:
		return !s.Release || !s.IsDrained(), nil
	case !inst.Ended():
		return true, nil
	}
	return isUndrained(ctx, s.reader, inst)
}

// isUndrained reports whether an ended placement has a virtual node, or something from which Liqo may make one.
func isUndrained(ctx context.Context, r client.Reader, inst *agentv1alpha1.ReservationInstruction) (bool, error) {
	name := inst.PlacementName()
	if found, err := object.Get(ctx, r, "", name, &corev1.Node{}); found || err != nil {
		return found, err
	}
	ns, err := object.FindTenantNamespace(ctx, r, inst.Spec.TargetClusterID)
	if ns == nil || err != nil {
		return false, err
	}
	if found, err := object.Get(ctx, r, ns.Name, name, &authv1beta1.ResourceSlice{}); found || err != nil {
		return found, err
	}
	return object.Get(ctx, r, ns.Name, name, &offloadingv1beta1.VirtualNode{})
}

// selectedProviders returns nil for a selector of another form than that of nodeSelectorOf.
func selectedProviders(o *offloadingv1beta1.NamespaceOffloading) []string {
	terms := o.Spec.ClusterSelector.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || len(terms[0].MatchFields) > 0 {
		return nil
	}
	if e := terms[0].MatchExpressions[0]; e.Key == consts.RemoteClusterID && e.Operator == corev1.NodeSelectorOpIn {
		return e.Values
	}
	return nil
}

func nodeSelectorOf(providers []string) corev1.NodeSelector {
	return corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: consts.RemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: providers,
		}},
	}}}
}

// remoteCondition reports whether a condition of a NamespaceOffloading is true for one provider.
// Liqo stores these conditions by the name of the provider's NamespaceMap, which is the
// provider's ID. The condition Ready may stay true for a provider that is no longer selected,
// because Liqo does not reset it.
func remoteCondition(o *offloadingv1beta1.NamespaceOffloading, provider string, kind offloadingv1beta1.RemoteNamespaceConditionType) bool {
	for _, c := range o.Status.RemoteNamespacesConditions[provider] {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (p consumerSide) writeOffloading(ctx context.Context, s *consumerScene, a plan.Action) error {
	defer failpoint.Hit(failpoint.ConsumerOffloadingMade)
	if present := s.offloading[a.Namespace]; present != nil {
		update := present.DeepCopy()
		update.Spec.PodOffloadingStrategy = a.Agreement.Strategy.Pods
		update.Spec.ClusterSelector = nodeSelectorOf(a.Agreement.Providers)
		return p.opts.Client.Update(ctx, update)
	}
	err := object.Create(ctx, p.opts.Client, &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: object.OffloadingName,
			Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue},
		},
		Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: a.Agreement.Strategy.Names,
			PodOffloadingStrategy:    a.Agreement.Strategy.Pods,
			ClusterSelector:          nodeSelectorOf(a.Agreement.Providers),
		},
	})
	if apierrors.IsNotFound(err) {
		return nil // the namespace is gone; if it is created again, the watch reports it
	}
	return err
}
