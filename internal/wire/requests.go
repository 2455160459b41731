package wire

import (
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// ReservationRequest returns a ResourceRequest's message to the broker. It must be the same for every repetition,
// because the broker refuses a key with a different body.
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
	req.Healing = v1.ReservationRequestHealing(rr.Spec.Healing)
	return req
}
