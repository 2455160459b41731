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

// Annotations of objects that are being removed.
const (
	// givenUpAnnotation marks a ForeignCluster that the agent told Liqo to stop waiting for.
	givenUpAnnotation = "broker.fluidos.eu/given-up"
	// nudgedAnnotation makes Liqo reconcile a slice at once. Its own retries are up to 16
	// minutes apart.
	nudgedAnnotation = "broker.fluidos.eu/nudged"
	// partedAnnotation on an Identity holds the time at which the agent changed its remote
	// namespace to partedNamespace.
	partedAnnotation = "broker.fluidos.eu/parted"
)

const (
	// partedGrace is how long Liqo may take to act on a parted Identity.
	partedGrace = 5 * time.Second
	// lostInterval is how often to check an overdue release. Its pods, and Liqo's progress in
	// other clusters, are not watched.
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
	for i := range s.all {
		if inst := &s.all[i]; inst.Spec.TargetClusterID == s.Provider && !inst.Ended() {
			s.Standing++
		}
	}
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

// endPods deletes terminating pods whose end the provider does not confirm. Liqo does the
// same, but not for pods that it began to wait for before the provider was given up.
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

// partedNamespace is a remote namespace that holds no objects of this cluster at any provider.
// A change of the namespace makes Liqo start its replication anew.
const partedNamespace = "liqo-parted"
