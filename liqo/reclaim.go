package liqo

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// reclaimedAnnotation marks a Tenant that the agent, and not a person, has drained.
const reclaimedAnnotation = "broker.fluidos.eu/reclaimed"

// podsEnd is the delay between two checks of an ended placement that still has pods. The agent must poll, because it
// does not watch these pods.
const podsEnd = time.Second

// isSpanOver returns false if span is 0, which means no limit, or since is nil.
func isSpanOver(since *metav1.Time, span time.Duration, now time.Time) bool {
	return span > 0 && since != nil && !now.Before(since.Add(span))
}

// remainingSpan returns how much of the span is left; 0 if it is over, and 0 if it never ends because
// span is 0 or since is nil. Callers that also use isSpanOver must pass the same now to both functions.
// Otherwise the span could end between two readings of the clock, and no further check would be
// scheduled.
func remainingSpan(since *metav1.Time, span time.Duration, now time.Time) time.Duration {
	if span == 0 || since == nil {
		return 0
	}
	return max(since.Add(span).Sub(now), 0)
}

func (p providerSide) recheckAfter(s *providerScene) time.Duration {
	switch {
	case !s.Release:
		return 0
	case s.Pods > 0:
		return podsEnd
	}
	return remainingSpan(s.inst.Status.ReleasingSince, p.opts.ReclaimAfter, s.now)
}

// reclaimFuncs holds the functions for the actions of planReclaim, planEviction and planDrained.
var reclaimFuncs = map[plan.Verb]func(providerSide, context.Context, *providerScene) error{
	plan.CordonSlice: providerSide.cordonSlice,
	plan.DeletePods:  providerSide.deletePods,
	plan.DeleteReplica: func(p providerSide, ctx context.Context, s *providerScene) error {
		return object.Delete(ctx, p.opts.Client, s.replica)
	},
	plan.DrainTenant:    providerSide.drainTenant,
	plan.RestoreTenant:  providerSide.restoreTenant,
	plan.DeleteReplicas: providerSide.deleteReplicas,
}

func (p providerSide) cordonSlice(ctx context.Context, s *providerScene) error {
	cordoned := s.replica.DeepCopy()
	metav1.SetMetaDataAnnotation(&cordoned.ObjectMeta, consts.CordonResourceAnnotation, "true")
	p.opts.Log.Info("reclaiming capacity that a consumer did not release in time", "placement", s.Name, "consumer", s.Consumer, "pods", s.ShadowPods)
	return p.opts.Client.Update(ctx, cordoned)
}

func (p providerSide) deletePods(ctx context.Context, s *providerScene) error {
	return p.removeAll(ctx, s.shadowPods)
}

func (p providerSide) deleteReplicas(ctx context.Context, s *providerScene) error {
	return p.removeAll(ctx, s.replicas)
}

func (p providerSide) removeAll(ctx context.Context, objects []metav1.PartialObjectMetadata) error {
	for i := range objects {
		if objects[i].DeletionTimestamp != nil {
			continue
		}
		if err := object.Delete(ctx, p.opts.Client, &objects[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p providerSide) drainTenant(ctx context.Context, s *providerScene) error {
	drained := s.tenant.DeepCopy()
	drained.Spec.TenantCondition = authv1beta1.TenantConditionDrained
	metav1.SetMetaDataAnnotation(&drained.ObjectMeta, reclaimedAnnotation, "true")
	p.opts.Log.Info("ending the rights of a consumer that left its replicas here", "consumer", s.Consumer, "replicas", s.Replicated)
	return p.opts.Client.Update(ctx, drained)
}

func (p providerSide) restoreTenant(ctx context.Context, s *providerScene) error {
	restored := s.tenant.DeepCopy()
	restored.Spec.TenantCondition = authv1beta1.TenantConditionActive
	delete(restored.Annotations, reclaimedAnnotation)
	return p.opts.Client.Update(ctx, restored)
}
