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

// secret is the Secret with the identity. The agent creates it when there is something to store. It
// needs the right to create Secrets, and to get, list, watch and update the Secret with this name.
type secret struct {
	client kubernetes.Interface
	types.NamespacedName
}

// loadState returns the state and the Secret from which it read the state. If the Secret does not
// exist, it returns an empty state and nil.
func (s *secret) loadState(ctx context.Context) (State, *corev1.Secret, error) {
	object, err := s.client.CoreV1().Secrets(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return State{}, nil, nil
	}
	if err != nil {
		return State{}, nil, fmt.Errorf("read secret %q: %w", s, err)
	}
	return ReadState(object.Data), object, nil
}

// saveState replaces the state in the Secret that loadState returned. isOvertaken tells if that has changed since.
func (s *secret) saveState(ctx context.Context, read *corev1.Secret, state State) error {
	secrets := s.client.CoreV1().Secrets(s.Namespace)
	var err error
	if read == nil {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: s.Name, Namespace: s.Namespace,
				Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue},
			},
			Data: state.secretData(),
		}, metav1.CreateOptions{})
	} else {
		object := read.DeepCopy()
		for _, entry := range entries {
			delete(object.Data, entry)
		}
		if object.Data == nil {
			object.Data = map[string][]byte{}
		}
		maps.Copy(object.Data, state.secretData())
		_, err = secrets.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write secret %q: %w", s, err)
	}
	return nil
}

// isOvertaken reports whether a write failed because another replica or a user has written meanwhile.
func isOvertaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

func (s *secret) watchChanges(ctx context.Context, changed func()) {
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
