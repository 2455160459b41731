package app

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lockTimeout allows a second attempt within the 10 s in which the lease must be renewed.
const lockTimeout = 5 * time.Second

// newLock returns the lease lock of --leader-elect, with the pod's name as identity. A
// container that restarts in the same pod finds its own lease and continues at once, instead of
// waiting until it expires. Two containers of one pod never run at the same time. Without
// POD_NAME newLock returns nil, and the manager creates a lock with a random identity.
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
	return lock, nil
}
