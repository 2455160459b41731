package resourcerequest

import (
	"context"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// obstacleFor is how long an obstacle is shown before the broker is asked again. The broker searches
// more often, but does not explain each search.
const obstacleFor = 5 * time.Minute

// obstacle is why no other cluster can take over a request.
type obstacle struct {
	asked time.Time
	why   string
}

// findObstacle returns why no other cluster takes over a request that may leave its provider. It
// returns "" if nothing prevents that, or if the broker does not say. It also returns after what time
// to look again, or the constant never.
func (r *Reconciler) findObstacle(ctx context.Context, rr *agentv1alpha1.ResourceRequest, all []agentv1alpha1.ReservationInstruction) (string, time.Duration) {
	r.mu.Lock()
	known := r.obstacles[rr.UID]
	delete(r.obstacles, rr.UID)
	r.mu.Unlock()
	current, now := currentOf(all), r.options.Clock.Now()
	if current == nil || !isStanding(current) || current.Spec.MoveAt == nil || rr.Spec.Healing == brokerv1alpha1.HealingWait || otherStanding(all, current) != nil {
		return "", never
	}
	if left := current.Spec.MoveAt.Sub(now); left > 0 {
		return "", left
	}
	if now.Sub(known.asked) >= obstacleFor {
		known = obstacle{asked: now}
		quote, err := r.broker.RequestQuote(ctx, "", wire.ReservationRequest(rr, r.options.ClusterID))
		if err == nil && quote.ClusterID == "" {
			known.why = quote.Message
		}
	}
	r.mu.Lock()
	r.obstacles[rr.UID] = known
	r.mu.Unlock()
	return known.why, known.asked.Add(obstacleFor).Sub(now)
}
