package release

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// store caches the Secrets and ConfigMaps of a namespace.
type store struct {
	namespace  string
	secrets    corelisters.SecretLister
	configMaps corelisters.ConfigMapLister
}

// openStore returns a store once all Secrets and ConfigMaps are cached. Until background ends, the store
// calls changed after every change.
func openStore(ctx, background context.Context, config *rest.Config, namespace string, changed func()) (*store, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	core := factory.Core().V1()
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	}
	for _, informer := range []cache.SharedIndexInformer{core.Secrets().Informer(), core.ConfigMaps().Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	factory.Start(background.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("reading every %s of namespace %q: %w", kind.Elem().Name(), namespace, context.Cause(ctx))
		}
	}
	return &store{namespace: namespace, secrets: core.Secrets().Lister(), configMaps: core.ConfigMaps().Lister()}, nil
}

func (s *store) data(kind, name string) (map[string][]byte, bool) {
	if kind == "Secret" {
		secret, err := s.secrets.Secrets(s.namespace).Get(name)
		if err != nil { // the only error of a lister is not found
			return nil, false
		}
		return secret.Data, true
	}
	configMap, err := s.configMaps.ConfigMaps(s.namespace).Get(name)
	if err != nil {
		return nil, false
	}
	return dataOf(configMap), true
}

func dataOf(c *corev1.ConfigMap) map[string][]byte {
	data := map[string][]byte{}
	for key, value := range c.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, c.BinaryData)
	return data
}

// value returns the value of a key in a Secret or ConfigMap. It returns false if there is none.
func (s *store) value(kind, name, key string) (string, bool) {
	data, _ := s.data(kind, name)
	value, ok := data[key]
	return string(value), ok
}
