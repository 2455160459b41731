package identity

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// secret is the identity Secret, made when there is something to keep. The rights it
// takes are create, and get, list, watch and update of that one name.
type secret struct {
	client kubernetes.Interface
	types.NamespacedName
}

// load returns the state and the Secret it was read from, nil where there is none.
func (s *secret) load(ctx context.Context) (State, *corev1.Secret, error) {
	object, err := s.client.CoreV1().Secrets(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return State{}, nil, nil
	}
	if err != nil {
		return State{}, nil, fmt.Errorf("read secret %q: %w", s, err)
	}
	return ReadState(object.Data), object, nil
}

// save writes state over what load returned. It fails with a conflict, see
// overtaken, where somebody else wrote in between.
func (s *secret) save(ctx context.Context, read *corev1.Secret, state State) error {
	secrets := s.client.CoreV1().Secrets(s.Namespace)
	var err error
	if read == nil {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: s.Name, Namespace: s.Namespace,
				Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue},
			},
			Data: state.data(),
		}, metav1.CreateOptions{})
	} else {
		object := read.DeepCopy()
		for _, entry := range entries {
			delete(object.Data, entry)
		}
		if object.Data == nil {
			object.Data = map[string][]byte{}
		}
		maps.Copy(object.Data, state.data())
		_, err = secrets.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write secret %q: %w", s, err)
	}
	return nil
}

// overtaken says that another replica, or a person, was faster.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// watch calls changed whenever the Secret may have changed, until ctx ends.
func (s *secret) watch(ctx context.Context, changed func()) {
	source := cache.NewListWatchFromClient(s.client.CoreV1().RESTClient(), "secrets", s.Namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name))
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: func(_, _ any) { changed() },
			DeleteFunc: func(any) { changed() },
		},
	})
	controller.RunWithContext(ctx)
}
