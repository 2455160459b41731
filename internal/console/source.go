package console

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// watchKinds gets an informer for each kind from the cache, and counts the changes of its objects. Of kinds
// with many objects it keeps the objects in order.
func (s *informedObjects) watchKinds(ctx context.Context, informers cache.Informers, kinds []view.Kind) error {
	for _, kind := range kinds {
		informer, err := informers.GetInformer(ctx, kind.Object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("informer of %s: %w", kind.Plural, err)
		}
		registration, err := informer.AddEventHandler(s.handlerOf(kind.Object))
		if err != nil {
			return fmt.Errorf("informer of %s: %w", kind.Plural, err)
		}
		s.synced = append(s.synced, registration.HasSynced)
	}
	return nil
}

func (s *informedObjects) handlerOf(empty client.Object) toolscache.ResourceEventHandlerFuncs {
	count := func() { s.changes.Add(1) }
	switch empty.(type) {
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

// buildSnapshot reads all kinds from the informers. A kind without an informer has no objects. The objects are not
// copied, because nothing in the console modifies them.
func (s *informedObjects) buildSnapshot(ctx context.Context) (*view.Snapshot, error) {
	out := &view.Snapshot{Context: s.name, Flags: s.flags}
	if s.broker {
		out.Broker = &view.BrokerObjects{Ordered: true}
		if s.clusters != nil {
			out.Broker.Clusters = s.clusters.list()
		}
		if s.reservations != nil {
			out.Broker.Reservations = s.reservations.list()
		}
	}
	if s.member {
		out.Member = &view.MemberObjects{}
	}
	for _, k := range view.KindsOf(s.broker, s.member) {
		if k.Kind == "ClusterAdvertisement" || k.Kind == "Reservation" {
			continue
		}
		list, ok := k.List.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is no list", k.List)
		}
		err := s.cache.List(ctx, list, client.UnsafeDisableDeepCopy)
		if _, missing := errors.AsType[*cache.ErrResourceNotCached](err); err != nil && !missing {
			return nil, fmt.Errorf("%s: %w", k.Plural, err)
		}
		out.Add(list)
	}
	return out, nil
}
