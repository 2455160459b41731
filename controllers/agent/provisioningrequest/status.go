package provisioningrequest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// editor changes the status of a ProvisioningRequest in memory. Each of its methods records one fact.
type editor struct {
	pr  *autoscaling.ProvisioningRequest
	now time.Time
}

// outcome is how the capacity of a ProvisioningRequest ended.
type outcome struct {
	reason, message string
	// expired is true if the duration has ended.
	expired bool
	// retry is true if the capacity was taken away, so that another ProvisioningRequest may bring it back.
	retry bool
}

// isOver reports whether a ProvisioningRequest has ended. Its status does not change after that.
func isOver(pr *autoscaling.ProvisioningRequest) bool {
	for _, kind := range []string{autoscaling.Failed, autoscaling.CapacityRevoked, autoscaling.BookingExpired} {
		if meta.IsStatusConditionTrue(pr.Status.Conditions, kind) {
			return true
		}
	}
	return false
}

func isAccepted(pr *autoscaling.ProvisioningRequest) bool {
	return meta.IsStatusConditionTrue(pr.Status.Conditions, autoscaling.Accepted)
}

func isProvisioned(pr *autoscaling.ProvisioningRequest) bool {
	return meta.IsStatusConditionTrue(pr.Status.Conditions, autoscaling.Provisioned)
}

// isRequestOver reports whether a ResourceRequest holds nothing and asks for nothing.
func isRequestOver(rr *agentv1alpha1.ResourceRequest) bool {
	return rr.Status.Phase == agentv1alpha1.RequestFailed || rr.Status.Phase == agentv1alpha1.RequestReleased
}

// setAwaitingTemplate records that the ProvisioningRequest waits for a PodTemplate that does not exist yet.
func (e editor) setAwaitingTemplate(missing *missingTemplate) {
	e.setCondition(autoscaling.Accepted, metav1.ConditionFalse, agentv1alpha1.ReasonPodTemplateMissing,
		fmt.Sprintf("%s: create it; it is looked up every %s for %s", missing, templateRetry, templateTimeout))
}

// setRefused records that no ResourceRequest can be created. The spec is immutable, so that is final.
func (e editor) setRefused(reason, text string) {
	text += ". To try again, delete the ProvisioningRequest and create it with other values."
	e.setCondition(autoscaling.Accepted, metav1.ConditionFalse, reason, text)
	e.setCondition(autoscaling.Failed, metav1.ConditionTrue, reason, text)
}

func (e editor) showRequest(rr *agentv1alpha1.ResourceRequest) {
	if !metav1.IsControlledBy(rr, e.pr) {
		e.setRefused(agentv1alpha1.ReasonNameTaken, fmt.Sprintf("resource request %q exists and does not belong to this ProvisioningRequest: delete it", rr.Name))
		return
	}
	e.setCondition(autoscaling.Accepted, metav1.ConditionTrue, agentv1alpha1.ReasonPending, fmt.Sprintf("resource request %q asks the broker for the capacity", rr.Name))
	e.setDetails(rr)
	ready := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReady)
	if out, ended := outcomeOf(rr, isProvisioned(e.pr)); ended {
		e.setEnded(out)
		return
	}
	switch {
	case isProvisioned(e.pr):
	case ready == nil:
		e.setCondition(autoscaling.Provisioned, metav1.ConditionFalse, agentv1alpha1.ReasonPending, "waiting for the agent")
	case ready.Status == metav1.ConditionTrue:
		e.setCondition(autoscaling.Provisioned, metav1.ConditionTrue, ready.Reason, fmt.Sprintf(
			"node %q on cluster %q is ready; select it with node label %s: %s", rr.Status.NodeName, rr.Status.TargetClusterID, agentv1alpha1.RequestLabel, rr.Name))
	default:
		e.setCondition(autoscaling.Provisioned, metav1.ConditionFalse, ready.Reason, ready.Message)
	}
}

// setDetails names the reservation and the labels of its node. The labels stay the same when the reservation moves to
// another cluster, so pods that select them run there too.
func (e editor) setDetails(rr *agentv1alpha1.ResourceRequest) {
	labels := agentv1alpha1.RequestNodeLabels(rr.Namespace, rr.Name)
	details := map[string]autoscaling.Detail{
		autoscaling.DetailRequestName:      autoscaling.Detail(labels[agentv1alpha1.RequestLabel]),
		autoscaling.DetailRequestNamespace: autoscaling.Detail(labels[agentv1alpha1.RequestNamespaceLabel]),
	}
	for name, value := range map[string]string{
		autoscaling.DetailReservationName: rr.Status.ReservationName, autoscaling.DetailClusterID: rr.Status.TargetClusterID,
	} {
		if value == "" {
			value = string(e.pr.Status.ProvisioningClassDetails[name]) // keep the value of the reservation that has ended
		}
		if value != "" {
			details[name] = autoscaling.Detail(value)
		}
	}
	e.pr.Status.ProvisioningClassDetails = details
}

// outcomeOf returns how the capacity of a ResourceRequest ended, and whether it has ended or was refused. If the
// capacity was provisioned before, a request that waits in the queue again counts as ended, because its node and the
// pods on the node are gone.
func outcomeOf(rr *agentv1alpha1.ResourceRequest, provisioned bool) (outcome, bool) {
	out := outcome{reason: rr.Status.Reason, message: rr.Status.Message}
	if ready := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReady); ready != nil {
		out.reason, out.message = ready.Reason, ready.Message
	}
	ending := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionEnding)
	reserved := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	ends := isRequestOver(rr) || rr.Status.Phase == agentv1alpha1.RequestReleasing || provisioned && rr.Status.Phase == agentv1alpha1.RequestQueued
	switch {
	case rr.DeletionTimestamp != nil:
		return outcome{reason: agentv1alpha1.ReasonDeleted, message: fmt.Sprintf("resource request %q was deleted", rr.Name)}, true
	case rr.Spec.Release:
		return outcome{reason: agentv1alpha1.ReasonReleased, message: fmt.Sprintf("resource request %q was released with spec.release", rr.Name)}, true
	case !ends:
		return outcome{}, false
	case meta.IsStatusConditionTrue(rr.Status.Conditions, agentv1alpha1.ConditionPreempted):
		out.reason, out.retry = agentv1alpha1.ReasonPreempted, true
	case meta.IsStatusConditionTrue(rr.Status.Conditions, agentv1alpha1.ConditionRecalled):
		out.reason, out.retry = agentv1alpha1.ReasonRecalled, true
	case ending != nil && ending.Status == metav1.ConditionTrue && ending.Reason == agentv1alpha1.ReasonExpired:
		out.reason, out.expired = agentv1alpha1.ReasonExpired, true
	default:
		out.retry = true
	}
	if reserved != nil && reserved.Message != "" {
		out.message = reserved.Message
	}
	return out, true
}

// setEnded records that the capacity has ended or was refused. Kueue deactivates a workload whose capacity was revoked,
// and requeues one whose request has failed. So setEnded also sets Failed if another request may get the capacity
// again.
func (e editor) setEnded(out outcome) {
	if out.reason == "" {
		out.reason = agentv1alpha1.ReasonFailed
	}
	provisioned := isProvisioned(e.pr)
	if provisioned {
		e.setCondition(autoscaling.CapacityRevoked, metav1.ConditionTrue, out.reason, out.message)
	}
	if provisioned && out.expired {
		e.setCondition(autoscaling.BookingExpired, metav1.ConditionTrue, out.reason, out.message)
	}
	if !provisioned || out.retry {
		e.setCondition(autoscaling.Failed, metav1.ConditionTrue, out.reason, out.message)
	}
}

func (e editor) setCondition(kind string, status metav1.ConditionStatus, reason, text string) {
	message.SetCondition(&e.pr.Status.Conditions, kind, status, reason, text, e.pr.Generation, e.now)
}
