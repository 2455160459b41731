package console

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// maxEvents limits how many events about one object are read.
const maxEvents = 100

// reader calls the API server with the user's token: for events and manifests, for which the console has no informers, for
// dry runs, and for changes.
type reader interface {
	// events returns the events about an object, or a gap if the user may not read them.
	events(ctx context.Context, token string, about view.Ref) ([]corev1.Event, *view.Gap)
	// manifest returns the object as YAML, without managed fields.
	manifest(ctx context.Context, token string, resource schema.GroupVersionResource, of view.Ref) (string, error)
	// dryRun has the API server check the creation of a request. It returns the warnings, and stores nothing.
	dryRun(ctx context.Context, token string, rr *agentv1alpha1.ResourceRequest) (warnings []string, err error)
	// editor returns a client that changes objects.
	editor(token string) (client.Client, error)
}

// apiReader is a reader that calls the API server. It gets the configuration for a token from a function.
type apiReader struct {
	configOf func(token string) *rest.Config
}

// userReader returns a reader for the API server in config. It authenticates with the user's token, and never with the
// credentials in config.
func userReader(config *rest.Config) apiReader {
	anonymous := rest.AnonymousClientConfig(config)
	return apiReader{func(token string) *rest.Config {
		config := rest.CopyConfig(anonymous)
		config.BearerToken, config.Timeout = token, reviewTimeout
		return config
	}}
}

func (r apiReader) events(ctx context.Context, token string, about view.Ref) ([]corev1.Event, *view.Gap) {
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // events about objects without namespace are there
	}
	clients, err := kubernetes.NewForConfig(r.configOf(token))
	if err != nil {
		return nil, &view.Gap{Kind: view.Unread, Resource: "events", Message: err.Error()}
	}
	selector := fields.Set{"involvedObject.kind": about.Kind, "involvedObject.name": about.Name}.String()
	list, err := clients.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: maxEvents})
	switch {
	case err == nil:
		return list.Items, nil
	case apierrors.IsForbidden(err):
		return nil, &view.Gap{Kind: view.Hidden, Resource: "events"}
	}
	return nil, &view.Gap{Kind: view.Unread, Resource: "events", Message: err.Error()}
}

// editedKinds maps the kinds that users can change to their resources, so that a client asks the API server for neither.
var editedKinds, editedTypes = func() (meta.RESTMapper, *runtime.Scheme) {
	types := runtime.NewScheme()
	utilruntime.Must(errors.Join(agentv1alpha1.AddToScheme(types), brokerv1alpha1.AddToScheme(types)))
	kinds := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[string]meta.RESTScope{
		"ResourceRequest": meta.RESTScopeNamespace, "Reservation": meta.RESTScopeNamespace, "LendingPolicy": meta.RESTScopeRoot, "BrokerConfig": meta.RESTScopeRoot,
	} {
		resource := resources[kind]
		kinds.AddSpecific(resource.GroupVersion().WithKind(kind), resource, resource, scope)
	}
	return kinds, types
}()

func (r apiReader) editor(token string) (client.Client, error) {
	config := r.configOf(token)
	config.WarningHandler = rest.NoWarnings{}
	return client.New(config, client.Options{Scheme: editedTypes, Mapper: editedKinds})
}

func (r apiReader) manifest(ctx context.Context, token string, resource schema.GroupVersionResource, of view.Ref) (string, error) {
	objects, err := dynamic.NewForConfig(r.configOf(token))
	if err != nil {
		return "", err
	}
	object, err := objects.Resource(resource).Namespace(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("you may list this object, but not get its manifest")
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return "", errors.New("the object has just been deleted")
	case err != nil:
		return "", err
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	text, err := yaml.Marshal(object.Object)
	return string(text), err
}

func (r apiReader) dryRun(ctx context.Context, token string, rr *agentv1alpha1.ResourceRequest) ([]string, error) {
	config, heard := r.configOf(token), &view.Warnings{}
	config.WarningHandler = heard
	requests, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(rr); err != nil {
		return nil, err
	}
	object.SetGroupVersionKind(agentv1alpha1.GroupVersion.WithKind("ResourceRequest"))
	unstructured.RemoveNestedField(object.Object, "status")
	_, err = requests.Resource(resources["ResourceRequest"]).Namespace(rr.Namespace).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	// Quotas and admission webhooks answer Forbidden too, so the text decides whether the user lacks the right.
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource") {
		return nil, fmt.Errorf("you may not create ResourceRequests in namespace %q, so the API server tells you no quote: choose another namespace, or ask an administrator for the right: %w", rr.Namespace, err)
	}
	if err != nil {
		return nil, fmt.Errorf("the API server refuses the request: %w", err)
	}
	return heard.List(), nil
}
