package liqo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// Annotations with which the agent marks objects while it removes a placement.
const (
	// givenUpAnnotation marks a ForeignCluster that the agent has declared permanently
	// unreachable to Liqo.
	givenUpAnnotation = "broker.fluidos.eu/given-up"
	// nudgedAnnotation is set on a slice to make Liqo reconcile it at once. Without it, Liqo's
	// retries are up to 16 minutes apart.
	nudgedAnnotation = "broker.fluidos.eu/nudged"
	// partedAnnotation is set on an Identity whose remote namespace the agent has changed to
	// partedNamespace. Its value is the time of that change.
	partedAnnotation = "broker.fluidos.eu/parted"
)

const (
	// partedGrace is how long Liqo gets, after the change that partedAnnotation records, to
	// forget the objects that it replicated.
	partedGrace = 5 * time.Second
	// lostInterval is how often the agent checks a placement whose release is overdue. It must
	// poll, because it watches neither the pods of that placement nor objects in other clusters.
	lostInterval = 5 * time.Second
)

func (p consumerSide) observeReach(ctx context.Context, s *consumerScene) error {
	var fc liqov1beta1.ForeignCluster
	if !s.Release {
		found, err := object.Get(ctx, s.reader, "", s.Provider, &fc)
		if found {
			s.Reach, s.Health.Unreachable = reachMarks(&fc), unreachableReason(&fc)
		}
		return err
	}
	found, err := object.Get(ctx, p.opts.Reader, "", s.Provider, &fc)
	if !found || err != nil {
		return err
	}
	s.Reach = reachMarks(&fc)
	s.Reach.Known, s.Reach.Answers = true, true
	for _, c := range fc.Status.Conditions {
		if c.Type == liqov1beta1.APIServerStatusCondition {
			s.Reach.Answers = c.Status == liqov1beta1.ConditionStatusEstablished
		}
	}
	s.Overdue = isSpanOver(s.inst.Status.ReleasingSince, p.opts.GiveUpAfter, s.now)
	s.Standing = len(s.standing)
	return nil
}

func reachMarks(fc metav1.Object) plan.ReachView {
	return plan.ReachView{
		GivenUp: fc.GetAnnotations()[consts.ForeignClusterPermanentlyUnreachableAnnotationKey] == "true",
		ByAgent: fc.GetAnnotations()[givenUpAnnotation] == "true",
	}
}

func (s *consumerScene) observeParting() {
	at, parted := s.identity.Annotations[partedAnnotation]
	if !parted {
		return
	}
	since, err := time.Parse(time.RFC3339, at)
	s.Identity.Parted, s.Identity.ActedOn = true, err != nil || !s.now.Before(since.Add(partedGrace))
}

func (p consumerSide) recheckAfter(s *consumerScene) time.Duration {
	switch {
	case !s.Release && s.Health.Delivered && p.opts.Unaccepted != nil:
		return healthInterval
	case !s.Release:
		return 0
	case s.Overdue || s.Reach.GivenUp:
		return lostInterval
	}
	return remainingSpan(s.inst.Status.ReleasingSince, p.opts.GiveUpAfter, s.now)
}

func (p consumerSide) giveUpProvider(ctx context.Context, s *consumerScene) error {
	p.opts.Log.Info("giving up a provider that does not answer", "provider", s.Provider, "placement", s.Name)
	return p.markReach(ctx, s.Provider, `"true"`)
}

func (p consumerSide) undoGivingUp(ctx context.Context, s *consumerScene) error {
	return p.markReach(ctx, s.Provider, "null")
}

// markReach sets, or with value null removes, the annotations that tell Liqo that a provider
// is permanently unreachable.
func (p consumerSide) markReach(ctx context.Context, provider, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s,%q:%s}}}`,
		consts.ForeignClusterPermanentlyUnreachableAnnotationKey, value, givenUpAnnotation, value)
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: provider}}
	return client.IgnoreNotFound(p.opts.Client.Patch(ctx, fc, client.RawPatch(types.MergePatchType, patch)))
}

func (p consumerSide) nudgeSlice(ctx context.Context, s *consumerScene) error {
	nudged := s.slice.DeepCopy()
	metav1.SetMetaDataAnnotation(&nudged.ObjectMeta, nudgedAnnotation, "true")
	return client.IgnoreNotFound(p.opts.Client.Update(ctx, nudged))
}

// endPods deletes the terminating pods on the virtual node without a grace period, because the
// provider does not confirm that they have ended. After the provider was given up, Liqo itself
// deletes the other pods on the node in the same way, but not pods that were already
// terminating.
func (p consumerSide) endPods(ctx context.Context, s *consumerScene) error {
	pods := object.NewMetadataList(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := p.opts.Reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": s.Name}); err != nil {
		return err
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			continue // the drain has not reached this pod yet
		}
		err := p.opts.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func (p consumerSide) partIdentity(ctx context.Context, s *consumerScene) error {
	parted := s.identity.DeepCopy()
	metav1.SetMetaDataAnnotation(&parted.ObjectMeta, partedAnnotation, p.opts.Clock.Now().UTC().Format(time.RFC3339))
	parted.Spec.Namespace = new(partedNamespace)
	p.opts.Log.Info("leaving cleanup at a provider to its agent", "provider", s.Provider, "placement", s.Name)
	return p.opts.Client.Update(ctx, parted)
}

// partedNamespace is a remote namespace that exists at no provider. To make Liqo forget the
// objects that it replicated to a lost provider, the agent sets it in the Identity: Liqo
// restarts its replication when an Identity's remote namespace changes.
const partedNamespace = "liqo-parted"
