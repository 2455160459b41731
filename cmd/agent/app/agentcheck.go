package app

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
)

// missedIntervals is the number of intervals without an advertisement after which the broker
// counts a cluster as silent.
const missedIntervals = 3

// checkAgent checks that the agent runs. The objects of an agent that hangs do not change, so
// checkAgent looks at the agent's lease and at the age of the last advertisement that the broker
// received.
func (o *checkOptions) checkAgent(ctx context.Context, c client.Reader) checkup.Finding {
	lease := checkup.Lease{ObjectKey: client.ObjectKey{Namespace: o.namespace, Name: leaseName}, Process: "agent", Now: time.Now}
	found := lease.Check(ctx, c, "the agent runs without --leader-elect, or in another --namespace")
	if found.Level == checkup.Failed || found.Level == checkup.Warning {
		return found
	}
	return advertisedFinding(o.pong, o.advertisementInterval, found)
}

// advertisedFinding reports whether the last advertisement that the broker received is recent
// enough. If the broker did not answer, it returns lease, the finding about the lease.
func advertisedFinding(pong *v1.Pong, interval time.Duration, lease checkup.Finding) checkup.Finding {
	const advice = "read the agent's log, and delete its pod if it hangs: its Deployment starts a new one"
	if pong == nil {
		return lease
	}
	if pong.AdvertisedSecondsAgo == nil {
		return checkup.Fail(advice, "the broker has never received an advertisement of this cluster")
	}
	age := time.Duration(*pong.AdvertisedSecondsAgo * float64(time.Second)).Round(time.Second)
	switch {
	case age >= missedIntervals*interval:
		return checkup.Fail(advice, "the broker's newest advertisement of this cluster is %s old, and one is due every %s: the agent hangs or cannot publish, and the cluster gets nothing new", age, interval)
	case age > interval+interval/2:
		return checkup.Warn(advice, "the broker's newest advertisement of this cluster is %s old, and one is due every %s", age, interval)
	case lease.Level == checkup.OK:
		return checkup.Found("%s, and advertised %s ago", lease.Message, age)
	}
	return checkup.Found("advertised %s ago", age)
}
