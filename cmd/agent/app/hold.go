package app

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// placeholders has a cache of their own for the few pods that matter. An agent that holds
// by the ledger deletes what another configuration left behind; nil where there is no
// namespace for them, or nobody peers.
func (a *agent) placeholders(config *rest.Config) (*providerinstruction.Placeholders, error) {
	if a.podNamespace == "" || a.peering == nil {
		return nil, nil
	}
	made, err := labels.Parse(agentv1alpha1.PlaceholderLabel)
	if err != nil {
		return nil, err
	}
	offloaded, err := labels.Parse(liqo.OffloadedPodLabel)
	if err != nil {
		return nil, err
	}
	pods, err := cache.New(config, cache.Options{
		Scheme: a.mgr.GetScheme(), Mapper: a.mgr.GetRESTMapper(), HTTPClient: a.mgr.GetHTTPClient(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: map[string]cache.Config{
			a.podNamespace:      {LabelSelector: made},
			metav1.NamespaceAll: {LabelSelector: offloaded},
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("watching placeholders: %w", err)
	}
	return &providerinstruction.Placeholders{
		Namespace: a.podNamespace, Image: a.placeholderImage, PriorityClass: a.placeholderClass,
		Pods: pods, Room: a.watcher.Room,
	}, a.mgr.Add(pods)
}
