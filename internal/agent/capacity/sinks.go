package capacity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// sink receives objects of type O from a reflector. It keeps no objects, unlike a cache: it converts
// each one to facts and passes these to the accounts.
type sink[O metav1.Object, F any] struct {
	factsOf func(O) F
	// set is called after one object was added or changed, remove after one object was deleted, and
	// replace with the complete list of objects.
	set     func(trimmed[F])
	remove  func(trimmed[F])
	replace func([]trimmed[F])
}

var _ cache.TransformingStore = &sink[*corev1.Node, nodeFacts]{}

// trimmed holds the facts about an object, and its name. A reflector holds the whole first list in
// memory, so every object is trimmed before it is added to that list.
type trimmed[F any] struct {
	// Object is always nil. It makes trimmed implement metav1.Object, of which the reflector uses
	// only the two methods below.
	metav1.Object
	namespace, name string
	key             podKey
	facts           F
}

func (t trimmed[F]) GetNamespace() string { return t.namespace }
func (t trimmed[F]) GetName() string      { return t.name }

func (s *sink[O, F]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.readObject(obj) }
}

func (s *sink[O, F]) Add(obj any) error { return s.Update(obj) }

func (s *sink[O, F]) Update(obj any) error {
	t, err := s.readObject(obj)
	if err == nil {
		s.set(t)
	}
	return err
}

func (s *sink[O, F]) Delete(obj any) error {
	t, err := s.readObject(obj)
	if err == nil {
		s.remove(t)
	}
	return err
}

func (s *sink[O, F]) Replace(objs []any, _ string) error {
	all := make([]trimmed[F], len(objs))
	for i, obj := range objs {
		t, err := s.readObject(obj)
		if err != nil {
			return err
		}
		all[i] = t
	}
	s.replace(all)
	return nil
}

// Resync does nothing, because the sink has no objects to resend.
func (s *sink[O, F]) Resync() error { return nil }

func (s *sink[O, F]) readObject(obj any) (trimmed[F], error) {
	switch o := obj.(type) {
	case trimmed[F]:
		return o, nil
	case O:
		return trimmed[F]{namespace: o.GetNamespace(), name: o.GetName(), key: keyOf(o), facts: s.factsOf(o)}, nil
	}
	return trimmed[F]{}, fmt.Errorf("unexpected object of type %T", obj)
}
