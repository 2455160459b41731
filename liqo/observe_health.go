package liqo

import (
	"cmp"
	"context"
	"time"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
)

// healthInterval is how often the pods on a virtual node are counted. They are not watched.
const healthInterval = 30 * time.Second

// acceptWithin is how long Liqo may take to copy a pod to the provider before the pod counts as
// not accepted. Usually it takes a second.
const acceptWithin = 30 * time.Second

func (p consumerSide) observeHealth(_ context.Context, s *consumerScene) error {
	s.Health.Delivered = s.inst.Status.Delivered
	if p.opts.Unaccepted != nil && !s.Release {
		s.Health.Unaccepted, s.Health.UnacceptedPod = p.opts.Unaccepted(s.Name, s.now.Add(-acceptWithin))
	}
	return nil
}

// unreachableReason returns why Liqo does not reach a peer's API server, or "" if Liqo does.
func unreachableReason(fc *liqov1beta1.ForeignCluster) string {
	for _, c := range fc.Status.Conditions {
		if c.Type == liqov1beta1.APIServerStatusCondition && c.Status == liqov1beta1.ConditionStatusError {
			return cmp.Or(c.Message, "it does not answer")
		}
	}
	return ""
}
