package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ShadowPodPath is the path of the webhook for ShadowPods that consumers create.
const ShadowPodPath = "/validate-offloading-liqo-io-v1beta1-shadowpod"

const (
	// creatorLabel is the label in which Liqo's webhook stores the identity that created a ShadowPod.
	creatorLabel = "liqo.io/creator-user"
	// reportedAfter is how long after its end a pod's phase has surely reached the consumer, if the
	// consumer's virtual kubelet writes here meanwhile.
	reportedAfter = 5 * time.Second
)

// makeRoom deletes ended pods of a placement if a new ShadowPod needs their room: Liqo's quota
// counts a pod until its ShadowPod is deleted, so that a Job with more pods than fit at once would
// never finish. The consumer keeps the ended pod with its phase.
//
// The webhook always admits. The new ShadowPod itself may still be refused by Liqo; the consumer's
// virtual kubelet tries again. That it writes here proves that it runs, and has seen the phases:
// without them it would create the ended pods again.
func (j *podJudge) makeRoom(ctx context.Context, req admission.Request) admission.Response {
	shadow := struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			Pod corev1.PodSpec `json:"pod"`
		} `json:"spec"`
	}{}
	if err := json.Unmarshal(req.Object.Raw, &shadow); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	creator := shadow.Metadata.Labels[creatorLabel]
	if creator == "" || creator != req.UserInfo.Username || req.DryRun != nil && *req.DryRun {
		return admission.Allowed("")
	}
	if err := j.deleteEnded(ctx, creator, enforcement.RequestOf(&corev1.Pod{Spec: shadow.Spec.Pod})); err != nil {
		log.FromContext(ctx).Error(err, "ended pods keep their room", "identity", creator)
	}
	return admission.Allowed("")
}

func (j *podJudge) deleteEnded(ctx context.Context, creator string, request quantity.Amounts) error {
	var pods corev1.PodList
	if err := j.Pods.List(ctx, &pods, client.MatchingLabels{creatorLabel: creator}); err != nil || len(pods.Items) == 0 {
		return err
	}
	placement := enforcement.PodOf(&pods.Items[0]).Placement
	inst, err := j.instructionOf(ctx, placement)
	if inst == nil || err != nil {
		return err
	}
	limits, err := enforcement.LimitsOf(inst.Kept())
	if err != nil {
		return fmt.Errorf("placement %q: %w", placement, err)
	}
	for _, pod := range podsInTheWay(pods.Items, limits, request, j.Clock.Now()) {
		if err := j.DeleteShadowPod(ctx, pod.NamespacedName, pod.Owner); err != nil {
			return err
		}
		log.FromContext(ctx).Info("deleted an ended pod whose room is needed", "placement", placement, "pod", pod.String())
	}
	return nil
}

// podsInTheWay returns the ended pods, oldest first, whose room a request needs; none if it does not fit even so.
func podsInTheWay(pods []corev1.Pod, limits, request quantity.Amounts, now time.Time) (out []enforcement.Pod) {
	type endedPod struct {
		enforcement.Pod
		at time.Time
	}
	free, left := limits, []endedPod{}
	for i := range pods {
		pod := enforcement.PodOf(&pods[i])
		free = free.Sub(pod.Request)
		if at := endOf(&pods[i]); capacity.Finished(&pods[i]) && pod.Owner != "" && now.Sub(at) >= reportedAfter {
			left = append(left, endedPod{pod, at})
		}
	}
	slices.SortFunc(left, func(a, b endedPod) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.String(), b.String())) })
	for _, pod := range left {
		if _, fits := quantity.Fits(request, free); fits {
			return out
		}
		free, out = free.Add(pod.Request), append(out, pod.Pod)
	}
	if _, fits := quantity.Fits(request, free); !fits {
		return nil
	}
	return out
}

// endOf returns when an ended pod ended, as far as its status says.
func endOf(pod *corev1.Pod) time.Time {
	end := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.LastTransitionTime.After(end) {
			end = c.LastTransitionTime.Time
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(end) {
			end = t.FinishedAt.Time
		}
	}
	return end
}
