// Package served starts controllers of kinds whose CRDs others install.
package served

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// defaultCheckInterval is the pause between two checks whether a CRD exists.
const defaultCheckInterval = 30 * time.Second

// Setup makes a manager call setup once the API server serves a kind, perhaps long after the agent has started. It checks
// once per interval; 0 means every 30 s.
func Setup(mgr ctrl.Manager, kind schema.GroupVersionKind, interval time.Duration, timer clock.Clock, setup func(ctrl.Manager) error) error {
	server, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	if interval <= 0 {
		interval = defaultCheckInterval
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !awaitKind(ctx, server, kind, interval, timer) {
			return nil // the manager stops
		}
		return setup(mgr)
	}))
}

// awaitKind waits until the API server serves a kind. It returns false if the context ends first. It logs only the
// first failed check, because many clusters never get the CRD.
func awaitKind(ctx context.Context, server discovery.ServerResourcesInterface, kind schema.GroupVersionKind, interval time.Duration, timer clock.Clock) bool {
	for logged := false; ; logged = true {
		served, err := isServed(server, kind)
		switch {
		case served:
			return true
		case logged:
		case err != nil:
			log.FromContext(ctx).Error(err, "looking for a CRD failed, retrying", "kind", kind.Kind, "after", interval.String())
		default:
			log.FromContext(ctx).Info("waiting for a CRD", "kind", kind.Kind, "interval", interval.String())
		}
		select {
		case <-ctx.Done():
			return false
		case <-timer.After(interval):
		}
	}
}

func isServed(server discovery.ServerResourcesInterface, kind schema.GroupVersionKind) (bool, error) {
	list, err := server.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }), nil
}
