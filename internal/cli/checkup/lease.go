package checkup

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseGrace is how long a lease may have been expired before the check fails. In this time,
// another replica can take over. It also allows for a difference between the clocks of two
// machines.
const leaseGrace = 10 * time.Second

// Lease checks that the leader renews its lease. A process that hangs changes no object, so only
// the age of its lease shows that it hangs.
type Lease struct {
	client.ObjectKey
	// Process is the name of the process in messages: "agent" or "broker".
	Process string
	Now     func() time.Time
}

// Check reports which process leads. It fails if the lease was not renewed in time. If the lease
// does not exist, leader election is off, and the check is skipped. unused is the reason that the
// skipped check reports.
func (l Lease) Check(ctx context.Context, c client.Reader, unused string) Finding {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, l.ObjectKey, lease)
	if apierrors.IsNotFound(err) {
		return Skip("there is no lease %s: %s", l.ObjectKey, unused)
	}
	if err != nil {
		return readFailure(err)
	}
	return l.judgeSpec(&lease.Spec)
}

func (l Lease) judgeSpec(spec *coordinationv1.LeaseSpec) Finding {
	holder := ptr.Deref(spec.HolderIdentity, "")
	if spec.RenewTime == nil {
		return Fail(l.adviseRestart(), "no %s has ever held lease %s", l.Process, l.ObjectKey)
	}
	silent, last := l.Now().Sub(spec.RenewTime.Time), spec.RenewTime.UTC().Format(time.RFC3339)
	if holder == "" {
		if silent <= leaseGrace {
			return Warn("wait until a replica takes over", "lease %s was released at %s", l.ObjectKey, last)
		}
		return Fail(l.adviseRestart(), "no %s leads: lease %s was released at %s, %s ago, and none has taken it", l.Process, l.ObjectKey, last, silent.Round(time.Second))
	}
	if duration := spec.LeaseDurationSeconds; duration != nil && silent > time.Duration(*duration)*time.Second+leaseGrace {
		return Fail(l.adviseRestart(), "%s has not renewed lease %s since %s, %s ago, and no other %s has taken over: they hang, are gone, or cannot write to the API server",
			holder, l.ObjectKey, last, silent.Round(time.Second), l.Process)
	}
	since := ""
	if spec.AcquireTime != nil {
		since = " since " + spec.AcquireTime.UTC().Format(time.RFC3339)
	}
	return Found("%s leads%s", holder, since)
}

func (l Lease) adviseRestart() string {
	return fmt.Sprintf("kubectl --namespace %s get pods shows the %ss: read their logs, and delete those that hang; a Deployment starts new ones", l.Namespace, l.Process)
}
