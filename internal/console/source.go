package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// source returns the objects of the cluster.
type source interface {
	// snapshot returns all objects. The caller must not modify them.
	snapshot(ctx context.Context) (*shared, error)
	// revision returns a number that increases whenever an object changes.
	revision() uint64
}

// rebuildInterval is the minimum time between two snapshots while objects change.
const rebuildInterval = time.Second

// informedObjects is a source that reads from informers. All users share one snapshot.
type informedObjects struct {
	cache          client.Reader
	broker, member bool
	// gaps returns what the informers do not contain; nil if they contain everything.
	gaps        func() []view.Gap
	name, flags string
	now         func() time.Time
	changes     atomic.Uint64

	clusters     *ordered[*brokerv1alpha1.ClusterAdvertisement]
	reservations *ordered[*brokerv1alpha1.Reservation]
	// synced report whether the handlers have got all objects that existed when they were added.
	synced []toolscache.InformerSynced

	// building guards the fields below.
	building sync.Mutex
	built    *view.Snapshot
	parts    *parts
	builtOf  uint64
	builtAt  time.Time
}

// watchedKind is a kind for which the console has an informer.
type watchedKind struct {
	empty           client.Object
	group, resource string
	// inNamespaces is false for cluster-scoped kinds.
	inNamespaces bool
}

// kindsOf returns the kinds that the console shows in a cluster.
func kindsOf(broker, member bool) (kinds []watchedKind) {
	if broker {
		group := brokerv1alpha1.GroupVersion.Group
		kinds = append(kinds, watchedKind{&brokerv1alpha1.ClusterAdvertisement{}, group, "clusteradvertisements", true},
			watchedKind{&brokerv1alpha1.Reservation{}, group, "reservations", true}, watchedKind{&brokerv1alpha1.BrokerConfig{}, group, "brokerconfigs", false})
	}
	if member {
		group := agentv1alpha1.GroupVersion.Group
		kinds = append(kinds, watchedKind{&agentv1alpha1.ResourceRequest{}, group, "resourcerequests", true},
			watchedKind{&agentv1alpha1.ReservationInstruction{}, group, "reservationinstructions", true},
			watchedKind{&agentv1alpha1.ProviderInstruction{}, group, "providerinstructions", true},
			watchedKind{&agentv1alpha1.Advertisement{}, group, "advertisements", true},
			watchedKind{&agentv1alpha1.LendingPolicy{}, group, "lendingpolicies", false}, watchedKind{&corev1.Node{}, corev1.GroupName, "nodes", false})
	}
	return kinds
}

// watchKinds gets an informer for each kind from the cache, and counts the changes of its objects. Of kinds
// with many objects it keeps the objects in order.
func (s *informedObjects) watchKinds(ctx context.Context, informers cache.Informers, kinds []watchedKind) error {
	for _, kind := range kinds {
		informer, err := informers.GetInformer(ctx, kind.empty, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("informer of %s: %w", kind.resource, err)
		}
		registration, err := informer.AddEventHandler(s.handlerOf(kind))
		if err != nil {
			return fmt.Errorf("informer of %s: %w", kind.resource, err)
		}
		s.synced = append(s.synced, registration.HasSynced)
	}
	return nil
}

func (s *informedObjects) handlerOf(kind watchedKind) toolscache.ResourceEventHandlerFuncs {
	count := func() { s.changes.Add(1) }
	switch kind.empty.(type) {
	case *brokerv1alpha1.ClusterAdvertisement:
		s.clusters = newOrdered[*brokerv1alpha1.ClusterAdvertisement]()
		return s.clusters.handler(count)
	case *brokerv1alpha1.Reservation:
		s.reservations = newOrdered[*brokerv1alpha1.Reservation]()
		return s.reservations.handler(count)
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { count() }, UpdateFunc: func(_, _ any) { count() }, DeleteFunc: func(any) { count() }}
}

// awaitObjects waits until the handlers have got all objects.
func (s *informedObjects) awaitObjects(ctx context.Context) error {
	for _, synced := range s.synced {
		if !synced() && !toolscache.WaitForCacheSync(ctx.Done(), s.synced...) {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *informedObjects) revision() uint64 { return s.changes.Load() }

func (s *informedObjects) snapshot(ctx context.Context) (*shared, error) {
	if err := s.awaitObjects(ctx); err != nil {
		return nil, err
	}
	s.building.Lock()
	defer s.building.Unlock()
	now, revision := s.now(), s.changes.Load()
	if s.built == nil || s.builtOf != revision && now.Sub(s.builtAt) >= rebuildInterval {
		built, err := s.buildSnapshot(ctx)
		if err != nil {
			return nil, err
		}
		s.built, s.parts, s.builtOf, s.builtAt = built, newParts(), revision, now
	}
	current := &shared{*s.built, s.parts, s.builtOf}
	current.At = now
	if s.gaps != nil {
		current.Gaps = s.gaps()
	}
	return current, nil
}

func (s *informedObjects) buildSnapshot(ctx context.Context) (*view.Snapshot, error) {
	out := &view.Snapshot{Context: s.name, Flags: s.flags}
	if s.broker {
		out.Broker = &view.BrokerObjects{}
		if err := s.readBroker(ctx, out.Broker); err != nil {
			return nil, err
		}
	}
	if s.member {
		out.Member = &view.MemberObjects{}
		if err := s.readMember(ctx, out.Member); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *informedObjects) readBroker(ctx context.Context, to *view.BrokerObjects) error {
	configs := &brokerv1alpha1.BrokerConfigList{}
	if err := s.listCached(ctx, configs); err != nil {
		return err
	}
	to.Ordered = true
	if s.clusters != nil {
		to.Clusters = s.clusters.list()
	}
	if s.reservations != nil {
		to.Reservations = s.reservations.list()
	}
	if len(configs.Items) > 0 {
		to.Config = &configs.Items[0]
	}
	return nil
}

func (s *informedObjects) readMember(ctx context.Context, to *view.MemberObjects) error {
	requests, consumers, providers := &agentv1alpha1.ResourceRequestList{}, &agentv1alpha1.ReservationInstructionList{}, &agentv1alpha1.ProviderInstructionList{}
	advertisements, policies, nodes := &agentv1alpha1.AdvertisementList{}, &agentv1alpha1.LendingPolicyList{}, &corev1.NodeList{}
	if err := s.listCached(ctx, requests, consumers, providers, advertisements, policies, nodes); err != nil {
		return err
	}
	nodes.Items = slices.DeleteFunc(nodes.Items, func(n corev1.Node) bool { return n.Labels[agentv1alpha1.ReservationLabel] == "" })
	to.Requests, to.ConsumerInstructions, to.ProviderInstructions = requests.Items, consumers.Items, providers.Items
	to.Advertisements, to.Policies, to.Nodes = advertisements.Items, policies.Items, nodes.Items
	return nil
}

// listCached reads lists from the informers. A list whose kind has no informer stays empty. The objects are not
// copied, because nothing in the console modifies them.
func (s *informedObjects) listCached(ctx context.Context, lists ...client.ObjectList) error {
	for _, l := range lists {
		err := s.cache.List(ctx, l, client.UnsafeDisableDeepCopy)
		if _, missing := errors.AsType[*cache.ErrResourceNotCached](err); missing {
			continue
		}
		if err != nil {
			return fmt.Errorf("%T: %w", l, err)
		}
	}
	return nil
}
