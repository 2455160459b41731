package capacity

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// sink receives objects from a reflector. Unlike a cache, it keeps no object: it converts each
// to facts and passes these to the accounts.
type sink[F any] struct {
	// trim converts an API object to facts.
	trim func(obj any) (trimmed[F], error)
	// set and remove report a change of one object. replace reports all objects.
	set     func(trimmed[F])
	remove  func(trimmed[F])
	replace func([]trimmed[F])
}

var _ cache.TransformingStore = &sink[nodeFacts]{}

// trimmed is the part of an object that is kept. A reflector collects all objects by name
// during its first list, so they are trimmed before that.
type trimmed[F any] struct {
	// Object is nil. It makes trimmed implement the interface of an object with a name.
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

// Resync does nothing, because the sink keeps no objects.
func (s *sink[F]) Resync() error { return nil }

func (s *sink[F]) readObject(obj any) (trimmed[F], error) {
	if t, ok := obj.(trimmed[F]); ok {
		return t, nil
	}
	return s.trim(obj)
}

// trimNode keeps the labels of a node that are published or asked for, and whether the node is
// lent.
func trimNode(shown []string, lent *lendable) func(obj any) (trimmed[nodeFacts], error) {
	return func(obj any) (trimmed[nodeFacts], error) {
		n, ok := obj.(*corev1.Node)
		if !ok {
			return trimmed[nodeFacts]{}, fmt.Errorf("expected a Node, got %T", obj)
		}
		return trimmed[nodeFacts]{name: n.Name, facts: factsOfNode(n, shown, lent)}, nil
	}
}

// trimPod extracts facts from a pod. Placeholders of reservations, which are in one namespace,
// yield empty facts.
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
