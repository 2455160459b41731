package quote

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// againAdvice tells users how to get another quote after theirs has ended.
const againAdvice = "To get another quote, delete this one and create it again, or create one with another name."

// Limits of the schema of Quote.
const (
	maxPerHour, maxTotal, maxCurrency = 40, 60, 3
	maxName, maxClusterID             = 63, 40
)

// showAnswer writes the broker's answer into the status, and returns the time until the next
// reconcile.
func (r *Reconciler) showAnswer(q *agentv1alpha1.Quote, answer *v1.Quote) time.Duration {
	s := &q.Status
	s.Candidates = wire.ClipCandidates(candidatesOf(answer))
	if answer.ClusterID == "" || answer.Name == "" {
		why := answer.Message
		if why == "" {
			why = "no cluster has room"
		}
		r.setEnded(q, agentv1alpha1.QuoteFailed, agentv1alpha1.ReasonNoCandidate, why+". "+againAdvice)
		return retention
	}
	left := time.Duration(min(max(answer.RemainingSeconds, 0), longestHold.Seconds()) * float64(time.Second))
	end := metav1.NewTime(r.options.Clock.Now().Add(left).Truncate(time.Second))
	s.Phase, s.QuoteName, s.ExpiresAt = agentv1alpha1.QuoteHeld, message.Clip(answer.Name, maxName), &end
	s.TargetClusterID = message.Clip(answer.ClusterID, maxClusterID)
	if answer.PricePerHour != "" && answer.Currency != "" {
		s.Cost = &agentv1alpha1.QuoteCost{
			PerHour: message.Clip(answer.PricePerHour, maxPerHour), ToEnd: message.Clip(answer.PriceTotal, maxTotal),
			Currency: message.Clip(answer.Currency, maxCurrency), NotPriced: answer.NotPriced,
		}
	}
	r.setReady(q, metav1.ConditionTrue, agentv1alpha1.ReasonQuoteHeld, fmt.Sprintf(
		"capacity is held on %q until %s; to take it over, create a ResourceRequest with quote: %s and the same requirements", s.TargetClusterID, end.UTC().Format(time.RFC3339), q.Name))
	return min(left, confirmEvery)
}

func candidatesOf(answer *v1.Quote) []brokerv1alpha1.Candidate {
	out := make([]brokerv1alpha1.Candidate, len(answer.Candidates))
	for i, c := range answer.Candidates {
		out[i] = c.Candidate
	}
	return out
}

func (r *Reconciler) setEnded(q *agentv1alpha1.Quote, phase agentv1alpha1.QuotePhase, reason, text string) {
	q.Status.Phase = phase
	r.setReady(q, metav1.ConditionFalse, reason, text)
}

func (r *Reconciler) setReady(q *agentv1alpha1.Quote, status metav1.ConditionStatus, reason, text string) {
	q.Status.Message = message.Clip(text, message.MaxStatus)
	message.SetCondition(&q.Status.Conditions, agentv1alpha1.ConditionReady, status, reason, text, q.Generation, r.options.Clock.Now())
}

// endOf returns the time from which the retention of an ended Quote counts: the end of its hold or,
// if it never held anything, when it failed.
func endOf(q *agentv1alpha1.Quote) time.Time {
	if q.Status.ExpiresAt != nil {
		return q.Status.ExpiresAt.Time
	}
	if c := meta.FindStatusCondition(q.Status.Conditions, agentv1alpha1.ConditionReady); c != nil {
		return c.LastTransitionTime.Time
	}
	return q.CreationTimestamp.Time
}
