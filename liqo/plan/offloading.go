package plan

import (
	"fmt"
	"slices"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// Strategy says how a namespace is offloaded: which pods, and under which name. While the
// namespace is offloaded, Liqo allows changes of Pods and refuses changes of Names.
type Strategy struct {
	Pods  offloadingv1beta1.PodOffloadingStrategyType
	Names offloadingv1beta1.NamespaceMappingStrategyType
}

func (s Strategy) String() string { return fmt.Sprintf("%s and %s", s.Pods, s.Names) }

// WishOf returns the strategy that a request asks for. A field that the request does not set is
// empty.
//
// There is one exception: with PodComplianceEnforce, an empty field Pods becomes LocalAndRemote.
// All pods of the request's namespaces must then pass the webhook, which the API server calls
// only for namespaces with Liqo's label, and Liqo does not set that label for Local.
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

// WithDefaults sets empty fields to their defaults. The default of Pods is Local, with which Liqo
// changes no pod. Instead, the agent's webhook directs pods to the request's node if they select
// it; all other pods stay in this cluster.
func (s Strategy) WithDefaults() Strategy {
	if s.Pods == "" {
		s.Pods = offloadingv1beta1.LocalPodOffloadingStrategyType
	}
	if s.Names == "" {
		s.Names = offloadingv1beta1.DefaultNameMappingStrategyType
	}
	return s
}

// meetsWish reports whether the strategy of another owner satisfies a request. Empty fields may have any value.
func (s Strategy) meetsWish(wish Strategy) bool {
	return (wish.Pods == "" || s.Pods == wish.Pods) && (wish.Names == "" || s.Names == wish.Names)
}

// Claim is the offloading that one placement wants for a namespace.
type Claim struct {
	// Provider is the cluster ID of the placement's provider. Request names the request or
	// reservation behind the placement, for messages.
	Provider, Request string
	Strategy          Strategy
}

// Agreement is how a namespace is offloaded, decided for all placements that name it.
type Agreement struct {
	Strategy Strategy
	// By names the oldest request that wants this strategy.
	By string
	// Providers are the clusters that may receive pods of the namespace, sorted. Providers of
	// placements that want another strategy are not included.
	Providers []string
}

// Agree decides how a namespace is offloaded. inForce is its present strategy; claims are sorted
// by age, oldest first. The present strategy stays as long as any claim wants it; otherwise the
// oldest claim decides.
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

// OffloadingView is one of the namespaces that the placement offloads, with its
// NamespaceOffloading object.
type OffloadingView struct {
	Name string
	// NamespaceExists is false when the user's namespace is missing or being deleted.
	// NamespaceEnding is true when it is being deleted.
	NamespaceExists, NamespaceEnding bool
	// Labelled is true while the namespace has the label that makes Liqo's webhook handle its new pods.
	Labelled bool
	ObjectView

	// Wish is the strategy that the placement's request asks for.
	Wish Strategy
	// SameName is true when the namespace has the label that allows it to have the same name at providers.
	SameName bool
	// Wanted is the agreement of all placements that name the namespace and whose node may still
	// have pods. InForce and Selected are the strategy and the providers that the
	// NamespaceOffloading names at present.
	Wanted   Agreement
	InForce  Strategy
	Selected []string

	// Required is true when Liqo must offload the namespace to the placement's provider. Ready is
	// true when Liqo reports that the remote namespace exists there.
	Required, Ready bool
	// Phase is the phase that Liqo reports for the NamespaceOffloading.
	Phase string
}

// planOffloading returns the actions that make the NamespaceOffloading of each namespace match
// the agreement. The selector in a NamespaceOffloading always names whole clusters: Liqo
// evaluates it once per cluster, and kills pods if it matches only some of a cluster's virtual
// nodes.
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

// isOffloadingEnding reports whether Liqo still removes remote namespaces, for which it needs the peering.
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
			Message: countOf(len(v.Offloading), "namespace") + " can use the virtual node"}
	}
	messages := make([]string, len(waits))
	for i := range waits {
		messages[i] = waits[i].Message
	}
	return placement.Aspect{Reason: firstActionable(waits), Message: strings.Join(messages, "; ")}
}

// firstActionable prefers a reason other than ReasonOffloading, because it asks a person to act.
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
	case o.NamespaceEnding:
		return placement.Waiting(agentv1alpha1.ReasonOffloading, "namespace %q is being deleted", o.Name)
	case !o.NamespaceExists:
		return placement.Waiting(agentv1alpha1.ReasonOffloading, "namespace %q does not exist", o.Name)
	case conflict != nil:
		return *conflict
	case o.Terminating:
		// Its conditions still say that the remote namespace is ready.
		return placement.Waiting(agentv1alpha1.ReasonOffloading, "waiting until Liqo has ended the earlier offloading of namespace %q", o.Name)
	case !o.Required || !o.Ready || o.InForce.Pods != offloadingv1beta1.LocalPodOffloadingStrategyType && !o.Labelled:
		return placement.Waiting(agentv1alpha1.ReasonOffloading, "waiting for Liqo to offload namespace %q%s", o.Name, o.stuckHint())
	}
	return placement.Aspect{True: true}
}

// conflictWithForeign returns how a NamespaceOffloading that the agent did not make conflicts with the request.
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

// findConflict returns how the namespace's labels or another request conflict with the request.
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

// stuckHint returns the likely reason why Liqo has not offloaded the namespace yet, for a message.
func (o *OffloadingView) stuckHint() string {
	switch {
	case o.Wish.Names == offloadingv1beta1.EnforceSameNameMappingStrategyType:
		return ", which stays so if the provider has a namespace of that name or does not allow it (guard.sameNames of its chart)"
	case o.Phase == string(offloadingv1beta1.SomeFailedOffloadingPhaseType), o.Phase == string(offloadingv1beta1.AllFailedOffloadingPhaseType):
		return fmt.Sprintf(", which says %s", o.Phase)
	}
	return ""
}
