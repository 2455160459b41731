package capacity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// sink receives objects from a reflector. It keeps no objects, unlike a cache: it converts each
// one to facts and passes these to the accounts.
type sink[F any] struct {
	// trim converts an API object to facts.
	trim func(obj any) (trimmed[F], error)
	// set is called after one object was added or changed, remove after one object was deleted, and
	// replace with the complete list of objects.
	set     func(trimmed[F])
	remove  func(trimmed[F])
	replace func([]trimmed[F])
}

var _ cache.TransformingStore = &sink[nodeFacts]{}

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

func (s *sink[F]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.readObject(obj) }
}

func (s *sink[F]) Add(obj any) error { return s.Update(obj) }

func (s *sink[F]) Update(obj any) error {
	t, err := s.readObject(obj)
	if err == nil {
		s.set(t)
	}
	return err
}

func (s *sink[F]) Delete(obj any) error {
	t, err := s.readObject(obj)
	if err == nil {
		s.remove(t)
	}
	return err
}

func (s *sink[F]) Replace(objs []any, _ string) error {
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
func (s *sink[F]) Resync() error { return nil }

func (s *sink[F]) readObject(obj any) (trimmed[F], error) {
	if t, ok := obj.(trimmed[F]); ok {
		return t, nil
	}
	return s.trim(obj)
}

// trimNode returns a function that converts a Node to facts. shown are the keys of the labels to
// publish.
func trimNode(shown []string, lent *lendable) func(obj any) (trimmed[nodeFacts], error) {
	return func(obj any) (trimmed[nodeFacts], error) {
		n, ok := obj.(*corev1.Node)
		if !ok {
			return trimmed[nodeFacts]{}, fmt.Errorf("expected a Node, got %T", obj)
		}
		return trimmed[nodeFacts]{name: n.Name, facts: factsOfNode(n, shown, lent)}, nil
	}
}

// trimPod returns a function that converts a Pod to facts. placeholders is the namespace of the
// placeholder pods, for which the facts are empty.
func trimPod[F any](placeholders string, factsOf func(*corev1.Pod) F) func(obj any) (trimmed[F], error) {
	return func(obj any) (trimmed[F], error) {
		p, ok := obj.(*corev1.Pod)
		if !ok {
			return trimmed[F]{}, fmt.Errorf("expected a Pod, got %T", obj)
		}
		t := trimmed[F]{namespace: p.Namespace, name: p.Name, key: keyOf(&p.ObjectMeta)}
		if p.Namespace != placeholders || p.Labels[agentv1alpha1.PlaceholderLabel] == "" {
			t.facts = factsOf(p)
		}
		return t, nil
	}
}
