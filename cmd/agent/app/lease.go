package app

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/lease"
)

// lockTimeout is the timeout of a request for the lease. It leaves time for a second attempt within
// the 10 s in which the leader must renew its lease.
const lockTimeout = 5 * time.Second

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
	config = rest.CopyConfig(config)
	config.Timeout = lockTimeout
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, o.podNamespace, leaseName,
		clientset.CoreV1(), clientset.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: pod})
	if err != nil {
		return nil, fmt.Errorf("creating the lock of lease %q for pod %q: %w", leaseName, pod, err)
	}
	return &lease.Lock{Interface: lock}, nil
}
