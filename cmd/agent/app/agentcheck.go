package app

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
)

// missedIntervals is how many advertisements an agent may miss before its cluster counts as
// silent at the broker.
const missedIntervals = 3

// checkAgent checks that the agent works. An agent that hangs leaves every object as it was, so
// this looks at its lease, and at the age of the advertisement that the broker has.
func (o *checkOptions) checkAgent(ctx context.Context, c client.Reader) checkup.Finding {
	lease := checkup.Lease{ObjectKey: client.ObjectKey{Namespace: o.namespace, Name: leaseName}, Process: "agent", Now: time.Now}
	found := lease.Check(ctx, c, "the agent runs without --leader-elect, or in another --namespace")
	if found.Level == checkup.Failed || found.Level == checkup.Warning {
		return found
	}
	return advertisedFinding(o.pong, o.advertisementInterval, found)
}

// advertisedFinding judges the age of the broker's newest advertisement of this cluster. Without
// the broker's answer, the lease has to do.
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
