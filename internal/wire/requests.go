package wire

import (
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// ReservationRequest returns the message with which an agent sends a ResourceRequest to the broker. The message
// must be the same at every repetition, because the broker refuses an idempotency key that comes with another
// body.
func ReservationRequest(rr *agentv1alpha1.ResourceRequest, clusterID string) *v1.ReservationRequest {
	amounts := v1.Amounts{}
	for name, q := range rr.Spec.Resources {
		amounts[string(name)] = q.String()
	}
	if rr.Spec.CPU != nil {
		amounts["cpu"] = rr.Spec.CPU.String()
	}
	if rr.Spec.Memory != nil {
		amounts["memory"] = rr.Spec.Memory.String()
	}
	req := &v1.ReservationRequest{Resources: amounts, Priority: rr.Spec.Priority, RequesterID: clusterID}
	FromRequirements(inNamespace(rr.Namespace, &rr.Spec.Requirements), req)
	if rr.Spec.Duration != nil {
		req.DurationSeconds = int64(rr.Spec.Duration.Round(time.Second) / time.Second)
	}
	req.QueuePolicy = v1.ReservationRequestQueuePolicy(rr.Spec.QueuePolicy)
	if rr.Spec.QueueTimeout != nil {
		req.QueueTimeoutSeconds = int64(rr.Spec.QueueTimeout.Round(time.Second) / time.Second)
	}
	if idle := rr.Spec.Idle; idle != nil {
		req.Idle = &v1.Idle{AfterSeconds: int64(idle.After.Round(time.Second) / time.Second), Action: v1.IdleAction(idle.Action)}
	}
	req.Healing = v1.ReservationRequestHealing(rr.Spec.Healing)
	return req
}
