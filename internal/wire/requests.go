package wire

import (
	"maps"
	"slices"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
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

// Limits that the schemas of the CRDs set: the number of candidates in a list, and the lengths of
// their texts.
const (
	maxCandidates = 10
	maxReason     = 64
	maxPrice      = 40
	maxCurrency   = 3
	maxMessage    = 512
)

// ClipCandidates returns the candidates of a decision as a status shows them: at most ten, with
// texts shortened to the limits of the schema.
func ClipCandidates(in []brokerv1alpha1.Candidate) []brokerv1alpha1.Candidate {
	if len(in) == 0 {
		return nil
	}
	out := slices.Clone(in[:min(len(in), maxCandidates)])
	for i := range out {
		c := &out[i]
		c.Criteria = maps.Clone(c.Criteria)
		c.Reason, c.Message = message.Clip(c.Reason, maxReason), message.Clip(c.Message, maxMessage)
		c.PricePerHour, c.Currency = message.Clip(c.PricePerHour, maxPrice), message.Clip(c.Currency, maxCurrency)
	}
	return out
}
