package app

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lockTimeout leaves room for a second attempt within the 10 s in which a lease must
// be renewed.
const lockTimeout = 5 * time.Second

// lock is the lease that --leader-elect waits for, held in the name of the pod. A
// container that crashed and comes again in the same pod finds its own lease and goes
// on at once, where it would otherwise wait until the lease of a stranger is over. Two
// containers of one pod never run at the same time. Without a pod's name (POD_NAME) it
// is nil, and the process waits as a stranger.
func (o *options) lock(config *rest.Config) (resourcelock.Interface, error) {
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
		return nil, fmt.Errorf("lease %q of pod %q: %w", leaseName, pod, err)
	}
	return lock, nil
}
