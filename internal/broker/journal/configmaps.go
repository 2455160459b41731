package journal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// fieldManager owns the fields of the journal's ConfigMaps.
const fieldManager = "liqo-resource-broker-journal"

// annotationTouched is the annotation that Touch changes. The next update removes it.
const annotationTouched = "broker.fluidos.eu/journal-touched"

// untracked makes the API server drop its record of field owners, and skip computing it at
// every update. That computation is a quarter of the cost of a small update. The journal does
// not need it: the tail has one writer, and its header names that writer.
var untracked = []metav1.ManagedFieldsEntry{{}}

// listPage is how many objects one answer to a list contains at most.
const listPage = 500

// ConfigMaps is a Store that keeps each object as a ConfigMap in one namespace. There it needs the
// verbs get, list, create, update, patch and delete on ConfigMaps.
type ConfigMaps struct {
	objects typedcorev1.ConfigMapInterface
	// names lists objects without their content, which may be many megabytes.
	names metadata.ResourceInterface
}

var _ Store = (*ConfigMaps)(nil)

// NewConfigMaps returns the store in namespace, which must exist.
func NewConfigMaps(config *rest.Config, namespace string) (*ConfigMaps, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	// Only a few calls are in flight at a time, and the API server has its own fairness. For such calls
	// HTTP/1.1 costs both sides less, and a dead connection is dropped with the first call that
	// it does not answer.
	config.QPS = -1
	config.NextProtos = []string{"http/1.1"}
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("journal store: %w", err)
	}
	lister, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("journal store: %w", err)
	}
	return &ConfigMaps{
		objects: client.ConfigMaps(namespace),
		names:   lister.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace),
	}, nil
}

// Get implements Store.
func (s *ConfigMaps) Get(ctx context.Context, name string) (Object, error) {
	return callAPI(ctx, func() (*corev1.ConfigMap, error) {
		return s.objects.Get(ctx, name, metav1.GetOptions{})
	})
}

// Create implements Store.
func (s *ConfigMaps) Create(ctx context.Context, obj Object) (Object, error) {
	return callAPI(ctx, func() (*corev1.ConfigMap, error) {
		return s.objects.Create(ctx, toConfigMap(obj), metav1.CreateOptions{FieldManager: fieldManager})
	})
}

// Update implements Store.
func (s *ConfigMaps) Update(ctx context.Context, obj Object) (Object, error) {
	if obj.ResourceVersion == "" {
		return Object{}, fmt.Errorf("%w: update of ConfigMap %q without a resourceVersion", ErrUnavailable, obj.Name)
	}
	cm := toConfigMap(obj)
	cm.ManagedFields = untracked
	return callAPI(ctx, func() (*corev1.ConfigMap, error) {
		return s.objects.Update(ctx, cm, metav1.UpdateOptions{FieldManager: fieldManager})
	})
}

// Touch implements Store.
func (s *ConfigMaps) Touch(ctx context.Context, name, mark string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotationTouched, mark)
	_, err := callAPI(ctx, func() (*corev1.ConfigMap, error) {
		return s.objects.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fieldManager})
	})
	return err
}

// Delete implements Store.
func (s *ConfigMaps) Delete(ctx context.Context, name string) error {
	_, err := callAPI(ctx, func() (*corev1.ConfigMap, error) {
		return &corev1.ConfigMap{}, s.objects.Delete(ctx, name, metav1.DeleteOptions{})
	})
	return err
}

// List implements Store.
func (s *ConfigMaps) List(ctx context.Context, selector map[string]string) ([]Object, error) {
	var found []Object
	opts := metav1.ListOptions{LabelSelector: labels.Set(selector).String(), Limit: listPage}
	for {
		page, err := s.names.List(ctx, opts)
		if err != nil {
			return nil, classifyError(err)
		}
		for _, item := range page.Items {
			found = append(found, Object{
				Name:            item.Name,
				Labels:          item.Labels,
				ResourceVersion: item.ResourceVersion,
				Created:         item.CreationTimestamp.Time,
			})
		}
		if page.Continue == "" {
			return found, nil
		}
		opts.Continue = page.Continue
	}
}

// callAPI makes a call and translates its answer. It does not send a call whose context has
// already ended.
func callAPI(ctx context.Context, call func() (*corev1.ConfigMap, error)) (Object, error) {
	if err := ctx.Err(); err != nil {
		return Object{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	cm, err := call()
	if err != nil {
		return Object{}, classifyError(err)
	}
	return fromConfigMap(cm), nil
}

func toConfigMap(obj Object) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: obj.Name, Labels: obj.Labels, ResourceVersion: obj.ResourceVersion},
		Data:       obj.Data,
		BinaryData: obj.Binary,
	}
	if obj.Immutable {
		cm.Immutable = &obj.Immutable
	}
	return cm
}

func fromConfigMap(cm *corev1.ConfigMap) Object {
	return Object{
		Name:            cm.Name,
		Labels:          cm.Labels,
		Data:            cm.Data,
		Binary:          cm.BinaryData,
		Immutable:       cm.Immutable != nil && *cm.Immutable,
		ResourceVersion: cm.ResourceVersion,
		Created:         cm.CreationTimestamp.Time,
	}
}

// classifyError marks errors which guarantee that nothing was changed. A 5xx status is no such
// guarantee: the API server also answers 500 if etcd did not answer in time, and a proxy may answer
// 5xx for a request that it passed on.
func classifyError(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", ErrExists, err)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", ErrConflict, err)
	case isClientError(err), neverConnected(err):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

func isClientError(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500 && code != http.StatusRequestTimeout
}

// neverConnected reports whether a request failed before there was a connection to send it on.
func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
