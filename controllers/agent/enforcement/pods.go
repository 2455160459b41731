package enforcement

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// Pods are the pods of consumers and the placeholder pods, and what each placement uses.
type Pods struct {
	Cache cache.Cache
	Book  *enforcement.Book
	// Synced reports whether Book has counted every existing pod.
	Synced func() bool
}

// WatchPods starts watching the pods, on every replica. It looks for placeholder pods in the given namespace, if it is
// not empty.
func WatchPods(config *rest.Config, mgr manager.Manager, placeholders string) (*Pods, error) {
	made, err := labels.Parse(agentv1alpha1.PlaceholderLabel)
	if err != nil {
		return nil, err
	}
	shadowed, err := labels.Parse(guard.ShadowPodPods)
	if err != nil {
		return nil, err
	}
	namespaces := map[string]cache.Config{metav1.NamespaceAll: {LabelSelector: shadowed}}
	if placeholders != "" {
		namespaces[placeholders] = cache.Config{LabelSelector: made}
	}
	pods, err := cache.New(config, cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: namespaces}},
	})
	if err != nil {
		return nil, fmt.Errorf("watching consumers' pods: %w", err)
	}
	informer, err := pods.GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching consumers' pods: %w", err)
	}
	book := enforcement.NewBook()
	registration, err := informer.AddEventHandler(book)
	if err != nil {
		return nil, fmt.Errorf("watching consumers' pods: %w", err)
	}
	return &Pods{Cache: pods, Book: book, Synced: registration.HasSynced}, mgr.Add(onEveryReplica{pods})
}

// onEveryReplica is a cache that runs on every replica. All replicas answer webhooks, and none is ready before this
// cache has synced. By default, a manager starts a cache of several namespaces only on the leader, so a new replica
// would never become ready while the old one leads.
type onEveryReplica struct{ cache.Cache }

// NeedLeaderElection returns false, so that the manager starts the cache on every replica.
func (onEveryReplica) NeedLeaderElection() bool { return false }
