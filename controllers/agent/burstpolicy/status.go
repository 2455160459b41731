package burstpolicy

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// maxListed is how many requests the status lists.
const maxListed = 64

// saveStatus writes the status if it changed, and records a warning if pods now wait for a limit,
// for capacity or for the label of their namespace. The status includes the change that the caller
// is about to make.
func (r *Reconciler) saveStatus(ctx context.Context, s *scene, plan *burst.Plan) error {
	before := s.policy.DeepCopy()
	s.showPods()
	s.showRequests()
	s.showConditions(plan)
	s.policy.Status.ObservedGeneration = s.policy.Generation
	if c := plan.Change; c != nil {
		s.policy.Status.LastChange = &agentv1alpha1.BurstChange{At: roundUp(s.now), Action: c.Action, Request: c.Request, Pods: clampPods(c.Pods)}
	}
	if written, err := patch.Status(ctx, r.client, s.policy, before); !written {
		return err
	}
	if plan.Change != nil {
		failpoint.Hit(failpoint.BurstNoted)
	}
	for _, kind := range []string{agentv1alpha1.ConditionReady, agentv1alpha1.ConditionCovered} {
		c := message.ChangedCondition(s.policy.Status.Conditions, before.Status.Conditions, kind)
		if c != nil && c.Status == metav1.ConditionFalse && (c.Reason == agentv1alpha1.ReasonNamespaceClosed || c.Reason == agentv1alpha1.ReasonLimitReached || c.Reason == agentv1alpha1.ReasonNoCapacity) {
			r.options.Recorder.Eventf(s.policy, nil, corev1.EventTypeWarning, c.Reason, "Watch", "%s", message.Clip(c.Message, message.MaxNote))
		}
	}
	return nil
}

// showInvalid records why the policy cannot be carried out. Its requests stay as they are.
func (r *Reconciler) showInvalid(ctx context.Context, policy *agentv1alpha1.BurstPolicy, invalid *invalidSpec) error {
	before := policy.DeepCopy()
	s := &scene{policy: policy, now: r.options.Clock.Now()}
	s.setCondition(agentv1alpha1.ConditionReady, metav1.ConditionFalse, agentv1alpha1.ReasonInvalid, invalid.Error())
	policy.Status.ObservedGeneration = policy.Generation
	_, err := patch.Status(ctx, r.client, policy, before)
	return err
}

// roundUp rounds a time up to a full second. The API stores times without fractions, and with a
// truncated time the pause that counts from it would be too short.
func roundUp(t time.Time) metav1.Time {
	return metav1.NewTime(t.Add(time.Second - time.Nanosecond).Truncate(time.Second))
}

func clampPods(n int64) int32 { return int32(min(n, math.MaxInt32)) }

func (s *scene) showPods() {
	status := &s.policy.Status
	waiting, skipped := int64(0), int64(0)
	for _, g := range s.grouping.Groups {
		waiting += g.Pods
	}
	status.Skipped = nil
	for _, k := range s.grouping.Skipped {
		skipped += k.Pods
		one := agentv1alpha1.SkippedPods{Reason: string(k.Skip), Pods: clampPods(k.Pods), Message: k.Skip.Message()}
		if len(k.Examples) > 0 {
			one.Example = k.Examples[0].Name
		}
		status.Skipped = append(status.Skipped, one)
	}
	status.WaitingPods, status.SkippedPods = clampPods(waiting), clampPods(skipped)
}

func (s *scene) showRequests() {
	status := &s.policy.Status
	status.Requests, status.RequestCount = nil, 0
	for i, rr := range s.requests {
		view := &s.views[i]
		if view.State != burst.Over {
			status.RequestCount++
		}
		if i >= maxListed {
			continue
		}
		one := agentv1alpha1.BurstRequest{Name: rr.Name, Pods: clampPods(view.Room()), Phase: rr.Status.Phase}
		if !view.IdleSince.IsZero() {
			since := metav1.NewTime(view.IdleSince.Truncate(time.Second))
			one.IdleSince = &since
		}
		status.Requests = append(status.Requests, one)
	}
	status.Requested = nil
	if sum := burst.Requested(s.views); !sum.IsZero() {
		status.Requested = sum.ToResourceList()
	}
}

func (s *scene) showConditions(plan *burst.Plan) {
	switch {
	case s.open:
		s.setCondition(agentv1alpha1.ConditionReady, metav1.ConditionTrue, agentv1alpha1.ReasonWatching, "new pods that the policy selects may use its virtual nodes")
	case s.barred:
		s.setCondition(agentv1alpha1.ConditionReady, metav1.ConditionFalse, agentv1alpha1.ReasonNamespaceClosed, fmt.Sprintf(
			"the agent's webhook leaves out namespace %q, which is the system's: create the policy and its pods in another namespace", s.policy.Namespace))
	default:
		s.setCondition(agentv1alpha1.ConditionReady, metav1.ConditionFalse, agentv1alpha1.ReasonNamespaceClosed, fmt.Sprintf(
			"pods of namespace %q are not prepared for virtual nodes: have an administrator label it (kubectl label namespace %s %s=true), then create the pods again",
			s.policy.Namespace, s.policy.Namespace, agentv1alpha1.BurstNamespaceLabel))
	}
	covered := metav1.ConditionFalse
	if plan.Why == agentv1alpha1.ReasonNothingWaits || plan.Why == agentv1alpha1.ReasonRequested {
		covered = metav1.ConditionTrue
	}
	s.setCondition(agentv1alpha1.ConditionCovered, covered, plan.Why, s.describeWait(plan))
}

func (s *scene) describeWait(plan *burst.Plan) string {
	until := plan.Until.UTC().Format(time.TimeOnly)
	switch plan.Why {
	case agentv1alpha1.ReasonNothingWaits:
		return "no pod waits that could run on a virtual node"
	case agentv1alpha1.ReasonRequested:
		return "the requests have or will have room for all pods that wait"
	case agentv1alpha1.ReasonGathering:
		return fmt.Sprintf("pods wait for nodes of this cluster: capacity is requested at %s UTC, after %s", until, s.rules.After)
	case agentv1alpha1.ReasonPausing:
		return fmt.Sprintf("the next change is made at %s UTC, one minute after the last", until)
	case agentv1alpha1.ReasonLimitReached:
		return "spec.limit allows no more: raise it, or wait until a request ends"
	case agentv1alpha1.ReasonNodeUnusable:
		return fmt.Sprintf("resource request %q has room, and its node is not Ready: %s", plan.About, s.messageOf(plan.About))
	case agentv1alpha1.ReasonNoCapacity:
		if plan.About == "" {
			return fmt.Sprintf("a request is repeated at %s UTC, because the API server refused it: %s", until, s.refusalUntil(plan.Until))
		}
		return fmt.Sprintf("resource request %q is over, and is repeated at %s UTC: %s", plan.About, until, s.messageOf(plan.About))
	}
	if text := s.messageOf(plan.About); text != "" {
		return fmt.Sprintf("resource request %q: %s", plan.About, text)
	}
	return fmt.Sprintf("resource request %q is being answered", plan.About)
}

// refusalUntil returns why the API server refused the request that is repeated at an instant.
func (s *scene) refusalUntil(at time.Time) string {
	for _, r := range s.refused {
		if r.until.Equal(at) {
			return r.why
		}
	}
	return ""
}

// messageOf returns the shortened status.message of a request, "" if the request does not exist.
func (s *scene) messageOf(name string) string {
	if rr := s.findRequest(name); rr != nil {
		return message.Clip(rr.Status.Message, message.MaxNote)
	}
	return ""
}

func (s *scene) setCondition(kind string, status metav1.ConditionStatus, reason, text string) {
	message.SetCondition(&s.policy.Status.Conditions, kind, status, reason, text, s.policy.Generation, s.now)
}

// tellSkipped records an event on each skipped pod whose name is known, unless the previous call did so.
func (r *Reconciler) tellSkipped(s *scene) {
	key := client.ObjectKeyFromObject(s.policy)
	before, now := r.told[key], map[skipEvent]bool{}
	for _, k := range s.grouping.Skipped {
		for _, pod := range k.Examples {
			id := skipEvent{pod.UID, k.Skip}
			if now[id] = true; before[id] {
				continue
			}
			ref := &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: s.policy.Namespace, Name: pod.Name, UID: types.UID(pod.UID)},
			}
			r.options.Recorder.Eventf(ref, s.policy, corev1.EventTypeNormal, string(k.Skip), "Burst", "%s",
				message.Clip(fmt.Sprintf("BurstPolicy %q borrows no capacity for this pod: %s", s.policy.Name, k.Skip.Message()), message.MaxNote))
		}
	}
	r.told[key] = now
}
