package liqo

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// planReclaim waits for the consumer to give back what has ended, and takes it when its
// time is over. The cordon keeps pods from coming back until the quota goes, which it
// does with the replica.
func planReclaim(v ProviderView) (actions []Action, granted Aspect) {
	if !v.Reclaim {
		return nil, waiting(agentv1alpha1.ReasonReleasing, "waiting until the slice and the %d pods of %q are gone", v.ShadowPods+v.Pods, v.Consumer)
	}
	if v.Quota && v.Replica.Exists && !v.Replica.Cordoned {
		actions = append(actions, Action{Do: CordonSlice})
	}
	if v.ShadowPods > 0 {
		actions = append(actions, Action{Do: DeletePods})
	}
	if v.Quota && v.Replica.Exists {
		actions = append(actions, Action{Do: DeleteReplica})
	}
	return actions, waiting(agentv1alpha1.ReasonReclaiming,
		"%q did not give it back in time: taking it, waiting until its quota and %d pods are gone", v.Consumer, v.Pods)
}

// evicts is whether the peering is the agent's to end. Where somebody deleted its Tenant,
// nobody but the agent can remove what the consumer replicated.
func (v *ProviderView) evicts() bool {
	if v.Tenant.Exists {
		return v.Tenant.Ours
	}
	return v.Namespace.Ours && v.Reclaim
}

// planEviction ends the peering of a consumer that leaves its replicas here. Its rights
// go first, or its Liqo would make anew what is deleted.
func planEviction(v ProviderView) []Action {
	switch {
	case !v.Reclaim:
		return nil
	case v.Tenant.Exists && !v.Tenant.Drained:
		return []Action{{Do: DrainTenant}}
	}
	return []Action{{Do: DeleteReplicas}}
}

// planDrained gives a consumer that comes back the rights that it lost to planEviction.
// What a person drained stays so.
func planDrained(v ProviderView) ([]Action, ProviderState) {
	s := ProviderState{Phase: agentv1alpha1.InstructionPeering}
	if v.Tenant.Reclaimed && v.Tenant.Ours {
		s.Granted = waiting(agentv1alpha1.ReasonPeering, "waiting until %q has its rights again", v.Consumer)
		return []Action{{Do: RestoreTenant}}, s
	}
	s.Granted = waiting(agentv1alpha1.ReasonPeering, "Tenant %q was drained: set its spec.tenantCondition to Active to lend to it again", v.Consumer)
	return nil, s
}

// reclaimedAnnotation marks a Tenant that the agent drained.
const reclaimedAnnotation = "broker.fluidos.eu/reclaimed"

// podsEnd is how often pods are looked at that take long to end: nothing tells of them.
const podsEnd = time.Second

// past says whether a span that began at since is over by now. One of 0 never is.
func past(since *metav1.Time, span time.Duration, now time.Time) bool {
	return span > 0 && since != nil && !now.Before(since.Add(span))
}

// remaining is what is left of such a span, 0 if it is over or never will be. Who asks both
// means the same now: between two of them the span ends, and nobody would look again.
func remaining(since *metav1.Time, span time.Duration, now time.Time) time.Duration {
	if span == 0 || since == nil {
		return 0
	}
	return max(since.Add(span).Sub(now), 0)
}

func (p *Peering) lookAgain(s *providerScene) time.Duration {
	switch {
	case !s.Release:
		return 0
	case s.Pods > 0:
		return podsEnd
	}
	return remaining(s.inst.Status.ReleasingSince, p.opts.ReclaimAfter, s.now)
}

// reclaims carry out what planReclaim, planEviction and planDrained call for.
var reclaims = map[Verb]func(*Peering, context.Context, *providerScene) error{
	CordonSlice:    (*Peering).cordonSlice,
	DeletePods:     (*Peering).deletePods,
	DeleteReplica:  func(p *Peering, ctx context.Context, s *providerScene) error { return p.remove(ctx, s.replica) },
	DrainTenant:    (*Peering).drainTenant,
	RestoreTenant:  (*Peering).restoreTenant,
	DeleteReplicas: (*Peering).deleteReplicas,
}

func (p *Peering) cordonSlice(ctx context.Context, s *providerScene) error {
	cordoned := s.replica.DeepCopy()
	metav1.SetMetaDataAnnotation(&cordoned.ObjectMeta, consts.CordonResourceAnnotation, "true")
	p.opts.Log.Info("reclaiming what a consumer did not give back in time", "placement", s.Name, "consumer", s.Consumer, "pods", s.ShadowPods)
	return p.opts.Client.Update(ctx, cordoned)
}

func (p *Peering) deletePods(ctx context.Context, s *providerScene) error {
	return p.removeAll(ctx, s.shadowPods)
}

func (p *Peering) deleteReplicas(ctx context.Context, s *providerScene) error {
	return p.removeAll(ctx, s.replicas)
}

func (p *Peering) removeAll(ctx context.Context, objects []metav1.PartialObjectMetadata) error {
	for i := range objects {
		if objects[i].DeletionTimestamp != nil {
			continue
		}
		if err := p.remove(ctx, &objects[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *Peering) drainTenant(ctx context.Context, s *providerScene) error {
	drained := s.tenant.DeepCopy()
	drained.Spec.TenantCondition = authv1beta1.TenantConditionDrained
	metav1.SetMetaDataAnnotation(&drained.ObjectMeta, reclaimedAnnotation, "true")
	p.opts.Log.Info("ending the rights of a consumer that left its replicas here", "consumer", s.Consumer, "replicas", s.Replicated)
	return p.opts.Client.Update(ctx, drained)
}

func (p *Peering) restoreTenant(ctx context.Context, s *providerScene) error {
	restored := s.tenant.DeepCopy()
	restored.Spec.TenantCondition = authv1beta1.TenantConditionActive
	delete(restored.Annotations, reclaimedAnnotation)
	return p.opts.Client.Update(ctx, restored)
}
