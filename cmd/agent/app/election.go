package app

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/election"
)

// renewDeadline is the time in which the leader must renew its lease, the default of the manager. A
// request for the lease may take half of it.
const renewDeadline = 10 * time.Second

// newLock returns the lock for --leader-elect. Its identity is the name of the pod. A container
// that restarts in the same pod therefore finds its own lease and leads again at once, instead of
// waiting until the lease expires. This is safe, because two containers of one pod never run at the
// same time. Without POD_NAME, newLock returns nil, and the manager creates a lock with a random
// identity.
func (o *options) newLock(config *rest.Config) (resourcelock.Interface, error) {
	pod := os.Getenv("POD_NAME")
	if !o.leaderElect || pod == "" || o.podNamespace == "" {
		return nil, nil
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.podNamespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: pod}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("creating the lock of lease %q for pod %q: %w", leaseName, pod, err)
	}
	return &election.Lock{Interface: lock}, nil
}
