package liqo

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/network"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// scene is what both sides of a peering observe for a placement.
type scene struct {
	reader client.Reader
	pair   handshake.Pair
	now    time.Time
	// namespace is the tenant namespace; nil if there is none.
	namespace *corev1.Namespace
	// live are the names of the pair's placements that have not ended, oldest first.
	live    []string
	network *network.Scene
}

// instruction is a ReservationInstruction or a ProviderInstruction, of type T.
type instruction[T any] interface {
	*T
	client.Object
	PlacementName() string
}

// oldestFirst returns the instructions for which keep returns true, sorted by age.
func oldestFirst[T any, I instruction[T]](all []T, keep func(I) bool) (sorted []I) {
	for i := range all {
		if inst := I(&all[i]); keep(inst) {
			sorted = append(sorted, inst)
		}
	}
	slices.SortFunc(sorted, func(a, b I) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return sorted
}

func placementNames[T any, I instruction[T]](instructions []I) []string {
	names := make([]string, len(instructions))
	for i, inst := range instructions {
		names[i] = inst.PlacementName()
	}
	return names
}

func (s *scene) isLive(placement string) bool { return slices.Contains(s.live, placement) }

// newMessage returns a message to the peer. It names the oldest placement of the pair that has not
// ended: as all messages of a pair name the same placement, all its placements share one handshake,
// and a new placement does not restart it.
func (s *scene) newMessage(step handshake.Step) handshake.Message {
	return handshake.Message{Consumer: s.pair.Consumer, Provider: s.pair.Provider, Placement: s.anchorPlacement(), Step: step}
}

func (s *scene) anchorPlacement() string {
	if len(s.live) == 0 {
		return ""
	}
	return s.live[0]
}

// observeNetwork observes the network connection of the pair. It observes nothing if this cluster
// connects no networks, or if the placement has ended.
func (p *Peering) observeNetwork(ctx context.Context, s *scene, ended bool) (v plan.NetworkView, err error) {
	if !p.network.IsOn() || ended || s.namespace == nil || s.namespace.DeletionTimestamp != nil {
		return v, nil
	}
	if s.network, err = p.network.Observe(ctx, s.pair, s.namespace.Name, s.anchorPlacement(), s.isLive); err != nil {
		return v, err
	}
	return s.network.NetworkView, nil
}
