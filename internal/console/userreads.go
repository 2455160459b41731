package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// maxEvents limits how many events about one object are read, the oldest first. Events are kept for an hour.
const maxEvents = 1000

// reader calls the API server with the user's token: for events and manifests, for which the console has no informers, for
// dry runs, and for changes.
type reader interface {
	// events returns the events about an object, or a gap if the user may not read them.
	events(ctx context.Context, token string, about view.Ref) ([]corev1.Event, *view.Gap)
	// manifest returns the object as YAML, without managed fields.
	manifest(ctx context.Context, token string, of view.Ref) (string, error)
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

// shownKinds are the kinds that have a page. A client with editedKinds and editedTypes asks the API server for no kinds.
var shownKinds, editedKinds, editedTypes = func() (map[string]schema.GroupVersionKind, meta.RESTMapper, *runtime.Scheme) {
	shown, kinds, types := map[string]schema.GroupVersionKind{}, meta.NewDefaultRESTMapper(nil), runtime.NewScheme()
	utilruntime.Must(errors.Join(agentv1alpha1.AddToScheme(types), brokerv1alpha1.AddToScheme(types), corev1.AddToScheme(types)))
	for _, k := range view.KindsOf(true, true) {
		if k.Kind == "Node" {
			continue
		}
		kind, err := apiutil.GVKForObject(k.Object, types)
		utilruntime.Must(err)
		shown[k.Kind] = kind
		if k.IsNamespaced() {
			kinds.Add(kind, meta.RESTScopeNamespace)
		} else {
			kinds.Add(kind, meta.RESTScopeRoot)
		}
	}
	kinds.Add(corev1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	return shown, kinds, types
}()

// client returns a client with the user's rights, and passes the warnings of the API server to a handler.
func (r apiReader) client(token string, warnings rest.WarningHandler) (client.Client, error) {
	config := r.configOf(token)
	config.WarningHandler = warnings
	return client.New(config, client.Options{Scheme: editedTypes, Mapper: editedKinds})
}

func (r apiReader) editor(token string) (client.Client, error) {
	return r.client(token, rest.NoWarnings{})
}

func (r apiReader) events(ctx context.Context, token string, about view.Ref) ([]corev1.Event, *view.Gap) {
	var list corev1.EventList
	c, err := r.editor(token)
	if err == nil {
		namespace := cmp.Or(about.Namespace, metav1.NamespaceDefault) // events about objects without namespace are there
		fields := client.MatchingFields{"involvedObject.kind": about.Kind, "involvedObject.name": about.Name}
		err = c.List(ctx, &list, client.InNamespace(namespace), fields, client.Limit(maxEvents))
	}
	switch {
	case err == nil:
		return list.Items, nil
	case apierrors.IsForbidden(err):
		return nil, &view.Gap{Kind: view.Hidden, Resource: "events"}
	}
	return nil, &view.Gap{Kind: view.Unread, Resource: "events", Message: err.Error()}
}

func (r apiReader) manifest(ctx context.Context, token string, of view.Ref) (string, error) {
	c, err := r.editor(token)
	if err != nil {
		return "", err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(shownKinds[of.Kind])
	err = c.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, object)
	switch {
	case apierrors.IsForbidden(err):
		return "", errors.New("you may list this object, but not get its manifest")
	case apierrors.IsNotFound(err):
		return "", errors.New("the object has just been deleted")
	case err != nil:
		return "", err
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	text, err := yaml.Marshal(object.Object)
	return string(text), err
}

func (r apiReader) dryRun(ctx context.Context, token string, rr *agentv1alpha1.ResourceRequest) ([]string, error) {
	heard := &view.Warnings{}
	c, err := r.client(token, heard)
	if err != nil {
		return nil, err
	}
	err = c.Create(ctx, rr, client.DryRunAll)
	// Quotas and admission webhooks answer Forbidden too, so the text decides whether the user lacks the right.
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource") {
		return nil, fmt.Errorf("you may not create ResourceRequests in namespace %q, so the API server tells you no quote: choose another namespace, or ask an administrator for the right: %w", rr.Namespace, err)
	}
	if err != nil {
		return nil, fmt.Errorf("the API server refuses the request: %w", err)
	}
	return heard.List(), nil
}
