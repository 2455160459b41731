package plan

import (
	"fmt"
	"slices"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// Strategy is how a namespace is offloaded. While the namespace is offloaded, Liqo allows
// changes of Pods and refuses changes of Names.
type Strategy struct {
	Pods  offloadingv1beta1.PodOffloadingStrategyType
	Names offloadingv1beta1.NamespaceMappingStrategyType
}

func (s Strategy) String() string { return fmt.Sprintf("%s and %s", s.Pods, s.Names) }

// WishOf returns the strategy that a request sets. Fields that it leaves open are empty.
//
// A request that enforces compliance concerns all pods of its namespaces, and Liqo's label on
// these, which calls the webhook for such pods, is absent with Local.
func WishOf(o *agentv1alpha1.Offloading) Strategy {
	if o == nil {
		return Strategy{}
	}
	wish := Strategy{
		Pods:  offloadingv1beta1.PodOffloadingStrategyType(o.PodOffloadingStrategy),
		Names: offloadingv1beta1.NamespaceMappingStrategyType(o.NamespaceMappingStrategy),
	}
	if wish.Pods == "" && o.PodCompliance == agentv1alpha1.PodComplianceEnforce {
		wish.Pods = offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType
	}
	return wish
}

// WithDefaults sets empty fields to their defaults. By default Liqo changes no pod: the agent's
// webhook lets pods that select the request's node go there, and all others stay as they are.
func (s Strategy) WithDefaults() Strategy {
	if s.Pods == "" {
		s.Pods = offloadingv1beta1.LocalPodOffloadingStrategyType
	}
	if s.Names == "" {
		s.Names = offloadingv1beta1.DefaultNameMappingStrategyType
	}
	return s
}

// meetsWish reports whether an object that the agent did not make satisfies a request. Its owner
// decides the fields that the request leaves open.
func (s Strategy) meetsWish(wish Strategy) bool {
	return (wish.Pods == "" || s.Pods == wish.Pods) && (wish.Names == "" || s.Names == wish.Names)
}

// Claim is the offloading that one placement wants for a namespace.
type Claim struct {
	// Provider is the placement's provider; Request names the placement's origin in messages.
	Provider, Request string
	Strategy          Strategy
}

// Agreement is the offloading of a namespace for all placements that name it.
type Agreement struct {
	Strategy Strategy
	// By is the oldest request that wants this strategy.
	By string
	// Providers may receive pods, sorted. Providers of placements that want another strategy
	// are left out.
	Providers []string
}

// Agree decides which strategy a namespace gets; claims are sorted, oldest first. The strategy
// in force stays as long as one claim wants it. After that, the oldest claim decides.
func Agree(inForce Strategy, claims []Claim) (a Agreement) {
	if len(claims) == 0 {
		return a
	}
	wants := func(c Claim) bool { return c.Strategy == inForce }
	oldest := max(slices.IndexFunc(claims, wants), 0)
	a.Strategy, a.By = claims[oldest].Strategy, claims[oldest].Request
	for _, c := range claims {
		if c.Strategy == a.Strategy {
			a.Providers = append(a.Providers, c.Provider)
		}
	}
	slices.Sort(a.Providers)
	a.Providers = slices.Compact(a.Providers)
	return a
}

// OffloadingView is one of the placement's namespaces.
type OffloadingView struct {
	Name string
	// NamespaceExists is false when the user's namespace is missing or being deleted.
	NamespaceExists bool
	// Labelled is true while Liqo's webhook handles new pods of the namespace.
	Labelled bool
	ObjectView

	// Wish is the strategy that the placement's request sets.
	Wish Strategy
	// SameName is true when the namespace may have its own name at providers.
	SameName bool
	// Wanted is the agreement of all placements that name the namespace and are not drained.
	// InForce and Selected are the object's current strategy and providers.
	Wanted   Agreement
	InForce  Strategy
	Selected []string

	// Required is true when Liqo was told to offload the namespace to the provider; Ready when
	// the remote namespace exists there.
	Required, Ready bool
	// Phase is the offloading phase that Liqo reports.
	Phase string
}

// planOffloading makes each namespace's object match the agreement. Its selector always names
// whole clusters: Liqo evaluates it per cluster, and kills pods if it matches only some of a
// cluster's virtual nodes.
func planOffloading(v ConsumerView) (actions []Action) {
	for _, o := range v.Offloading {
		wanted := len(o.Wanted.Providers) > 0
		switch {
		case !o.NamespaceExists || o.Terminating || o.Exists && !o.Ours:
		case o.Exists && (!wanted || o.InForce.Names != o.Wanted.Strategy.Names):
			actions = append(actions, Action{Do: DeleteOffloading, Namespace: o.Name})
		case wanted && (!o.Exists || o.InForce != o.Wanted.Strategy || !slices.Equal(o.Wanted.Providers, o.Selected)):
			actions = append(actions, Action{Do: WriteOffloading, Namespace: o.Name, Agreement: o.Wanted})
		}
	}
	return actions
}

// isOffloadingEnding reports whether Liqo is removing remote namespaces, which needs the peering.
func (v *ConsumerView) isOffloadingEnding() bool {
	return slices.ContainsFunc(v.Offloading, func(o OffloadingView) bool {
		return o.Exists && o.Ours && o.Terminating
	})
}

func offloadingAspect(v ConsumerView) placement.Aspect {
	if len(v.Offloading) == 0 {
		return placement.Aspect{
			True: true, Reason: agentv1alpha1.ReasonOffloading,
			Message: fmt.Sprintf("it offloads no namespace: pods go to %q only from namespaces whose NamespaceOffloading selects it", v.Provider),
		}
	}
	var waits []placement.Aspect
	for _, o := range v.Offloading {
		if a := o.aspectFor(&v); !a.True {
			waits = append(waits, a)
		}
	}
	if len(waits) == 0 {
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonOffloading,
			Message: fmt.Sprintf("%d namespaces may use the virtual node", len(v.Offloading))}
	}
	messages := make([]string, len(waits))
	for i := range waits {
		messages[i] = waits[i].Message
	}
	return placement.Aspect{Reason: firstActionable(waits), Message: strings.Join(messages, "; ")}
}

// firstActionable returns the first reason that needs a person's action.
func firstActionable(waits []placement.Aspect) string {
	for _, a := range waits {
		if a.Reason != agentv1alpha1.ReasonOffloading {
			return a.Reason
		}
	}
	return agentv1alpha1.ReasonOffloading
}

func (o *OffloadingView) aspectFor(v *ConsumerView) placement.Aspect {
	conflict := o.findConflict()
	if o.Exists && !o.Ours {
		conflict = o.conflictWithForeign(v)
	}
	switch {
	case !o.NamespaceExists:
		return placement.Waiting(agentv1alpha1.ReasonOffloading, "namespace %q does not exist", o.Name)
	case conflict != nil:
		return *conflict
	case !o.Required || !o.Ready || o.InForce.Pods != offloadingv1beta1.LocalPodOffloadingStrategyType && !o.Labelled:
		return placement.Waiting(agentv1alpha1.ReasonOffloading, "waiting for Liqo to offload namespace %q%s", o.Name, o.stuckHint())
	}
	return placement.Aspect{True: true}
}

// conflictWithForeign returns how a NamespaceOffloading that the agent did not make conflicts
// with the placement's wish; nil if it does not.
func (o *OffloadingView) conflictWithForeign(v *ConsumerView) *placement.Aspect {
	switch {
	case !o.InForce.meetsWish(o.Wish):
		return new(placement.Waiting(agentv1alpha1.ReasonOffloadingConflict,
			"namespace %q has a NamespaceOffloading that the agent did not make, with %s, where this request wants %s: change or delete that, or ask for the same",
			o.Name, o.InForce, o.Wish.WithDefaults()))
	case v.VirtualNode.Exists && !o.Required:
		return new(placement.Waiting(agentv1alpha1.ReasonProviderExcluded,
			"namespace %q has a NamespaceOffloading that the agent did not make and that does not select %q: add it to its clusterSelector, or delete it", o.Name, v.Provider))
	}
	return nil
}

// findConflict returns how the namespace or another request conflicts with the placement's wish;
// nil if neither does.
func (o *OffloadingView) findConflict() *placement.Aspect {
	wish := o.Wish.WithDefaults()
	switch {
	case wish.Names == offloadingv1beta1.EnforceSameNameMappingStrategyType && !o.SameName:
		return new(placement.Waiting(agentv1alpha1.ReasonSameNameNotAllowed,
			"namespace %q may not keep its name at providers: kubectl label namespace %s %s=true", o.Name, o.Name, agentv1alpha1.SameNameLabel))
	case len(o.Wanted.Providers) > 0 && o.Wanted.Strategy != wish:
		return new(placement.Waiting(agentv1alpha1.ReasonOffloadingConflict,
			"namespace %q is offloaded with %s for %s, where this request wants %s: it changes once that one has ended, or ask for the same",
			o.Name, o.Wanted.Strategy, o.Wanted.By, wish))
	}
	return nil
}

// stuckHint returns a hint at the likely cause of a long wait.
func (o *OffloadingView) stuckHint() string {
	switch {
	case o.Wish.Names == offloadingv1beta1.EnforceSameNameMappingStrategyType:
		return ", which stays so if the provider has a namespace of that name or does not allow it (guard.sameNames of its chart)"
	case o.Phase == string(offloadingv1beta1.SomeFailedOffloadingPhaseType), o.Phase == string(offloadingv1beta1.AllFailedOffloadingPhaseType):
		return fmt.Sprintf(", which says %s", o.Phase)
	}
	return ""
}
