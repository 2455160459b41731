package plan

import (
	"fmt"
	"slices"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// Strategy is how a namespace is offloaded. Liqo lets Pods be changed while the
// namespace is offloaded, and refuses another Names.
type Strategy struct {
	Pods  offloadingv1beta1.PodOffloadingStrategyType
	Names offloadingv1beta1.NamespaceMappingStrategyType
}

func (s Strategy) String() string { return fmt.Sprintf("%s and %s", s.Pods, s.Names) }

// WishOf is what a request says; empty parts it leaves open.
func WishOf(o *agentv1alpha1.Offloading) Strategy {
	if o == nil {
		return Strategy{}
	}
	return Strategy{
		Pods:  offloadingv1beta1.PodOffloadingStrategyType(o.PodOffloadingStrategy),
		Names: offloadingv1beta1.NamespaceMappingStrategyType(o.NamespaceMappingStrategy),
	}
}

// WithDefaults fills in what was left open.
func (s Strategy) WithDefaults() Strategy {
	if s.Pods == "" {
		s.Pods = offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType
	}
	if s.Names == "" {
		s.Names = offloadingv1beta1.DefaultNameMappingStrategyType
	}
	return s
}

// meets reports whether an object that a person made does what a request wants of it. What
// the request leaves open is the person's to say, as long as pods can leave.
func (s Strategy) meets(wish Strategy) bool {
	pods := s.Pods == wish.Pods || wish.Pods == "" && s.Pods != offloadingv1beta1.LocalPodOffloadingStrategyType
	return pods && (wish.Names == "" || s.Names == wish.Names)
}

// Claim is what one placement wants of a namespace.
type Claim struct {
	// Provider of the placement; Request asked for it, for people.
	Provider, Request string
	Strategy          Strategy
}

// Agreement is how a namespace is offloaded for all placements that name it.
type Agreement struct {
	Strategy Strategy
	// By is the oldest request that wants it so.
	By string
	// Providers that pods may go to, sorted; those of placements that want it otherwise
	// are not among them.
	Providers []string
}

// Agree settles what placements want of a namespace; claims are sorted, oldest first. The
// strategy that is in force stays as long as one of them wants it, whoever comes or
// goes; then the oldest one's follows.
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
	// NamespaceExists is false when the user's namespace is missing.
	NamespaceExists bool
	// Labelled is true while Liqo looks at new pods of the namespace.
	Labelled bool
	ObjectView

	// Wish is what the placement's request says.
	Wish Strategy
	// SameName is true where the namespace may have its own name at providers.
	SameName bool
	// Wanted is what all placements agree on that name the namespace and still have
	// something there; InForce and Selected is what the object says.
	Wanted   Agreement
	InForce  Strategy
	Selected []string

	// Required is true when Liqo was told to offload it to the provider, Ready when the
	// provider has the remote namespace too.
	Required, Ready bool
	// Phase is Liqo's word for it.
	Phase string
}

// planOffloading keeps each namespace's object at what was agreed on. It selects whole
// clusters: Liqo applies a selector to a cluster as a whole, and kills pods when it
// matches one of its virtual nodes and not another.
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

// offloadingGoes reports whether Liqo takes remote namespaces down, for which it needs the
// peering.
func (v *ConsumerView) offloadingGoes() bool {
	return slices.ContainsFunc(v.Offloading, func(o OffloadingView) bool {
		return o.Exists && o.Ours && o.Terminating
	})
}

func offloadingAspect(v ConsumerView) placement.Aspect {
	var waits []placement.Aspect
	for _, o := range v.Offloading {
		if a := o.aspect(&v); !a.True {
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
	return placement.Aspect{Reason: firstForPeople(waits), Message: strings.Join(messages, "; ")}
}

// firstForPeople is the first reason that does not pass by itself.
func firstForPeople(waits []placement.Aspect) string {
	for _, a := range waits {
		if a.Reason != agentv1alpha1.ReasonOffloading {
			return a.Reason
		}
	}
	return agentv1alpha1.ReasonOffloading
}

func (o *OffloadingView) aspect(v *ConsumerView) placement.Aspect {
	conflict := o.conflict()
	if o.Exists && !o.Ours {
		conflict = o.conflictWithForeign(v)
	}
	switch {
	case !o.NamespaceExists:
		return placement.Waiting(agentv1alpha1.ReasonOffloading, "namespace %q does not exist", o.Name)
	case conflict != nil:
		return *conflict
	case !o.Required || !o.Ready || o.InForce.Pods != offloadingv1beta1.LocalPodOffloadingStrategyType && !o.Labelled:
		return placement.Waiting(agentv1alpha1.ReasonOffloading, "waiting for Liqo to offload namespace %q%s", o.Name, o.stuck())
	}
	return placement.Aspect{True: true}
}

// conflictWithForeign is what a NamespaceOffloading of somebody else's has against the
// wish of a placement; nil for nothing.
func (o *OffloadingView) conflictWithForeign(v *ConsumerView) *placement.Aspect {
	switch {
	case !o.InForce.meets(o.Wish):
		return new(placement.Waiting(agentv1alpha1.ReasonOffloadingConflict,
			"namespace %q has a NamespaceOffloading that the agent did not make, with %s, where this request wants %s: change or delete that, or ask for the same",
			o.Name, o.InForce, o.Wish.WithDefaults()))
	case v.VirtualNode.Exists && !o.Required:
		return new(placement.Waiting(agentv1alpha1.ReasonProviderExcluded,
			"namespace %q has a NamespaceOffloading that the agent did not make and that does not select %q: add it to its clusterSelector, or delete it", o.Name, v.Provider))
	}
	return nil
}

// conflict is what the namespace, or another request, has against the wish of a placement.
func (o *OffloadingView) conflict() *placement.Aspect {
	wish := o.Wish.WithDefaults()
	switch {
	case wish.Names == offloadingv1beta1.EnforceSameNameMappingStrategyType && !o.SameName:
		return new(placement.Waiting(agentv1alpha1.ReasonSameNameNotAllowed,
			"namespace %q may not have its own name at providers: kubectl label namespace %s %s=true", o.Name, o.Name, agentv1alpha1.SameNameLabel))
	case len(o.Wanted.Providers) > 0 && o.Wanted.Strategy != wish:
		return new(placement.Waiting(agentv1alpha1.ReasonOffloadingConflict,
			"namespace %q is offloaded with %s for %s, where this request wants %s: it follows when that one has ended, or ask for the same",
			o.Name, o.Wanted.Strategy, o.Wanted.By, wish))
	}
	return nil
}

// stuck says what may be behind a wait that is long.
func (o *OffloadingView) stuck() string {
	switch {
	case o.Wish.Names == offloadingv1beta1.EnforceSameNameMappingStrategyType:
		return ", which stays so if the provider has a namespace of that name or does not allow it (guard.sameNames of its chart)"
	case o.Phase == string(offloadingv1beta1.SomeFailedOffloadingPhaseType), o.Phase == string(offloadingv1beta1.AllFailedOffloadingPhaseType):
		return fmt.Sprintf(", which says %s", o.Phase)
	}
	return ""
}
