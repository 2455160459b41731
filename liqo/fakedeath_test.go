package liqo

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errKilled is the error of a write that succeeded although its agent was killed.
var errKilled = errors.New("killed")

// mortal is the client of an agent that is killed right after a write, once for each object and
// verb. The agent loses its memory and the rest of its current actions.
type mortal struct {
	client.Client
	of *site
}

func (m mortal) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return m.die("create", obj, m.Client.Create(ctx, obj, opts...))
}

func (m mortal) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return m.die("update", obj, m.Client.Update(ctx, obj, opts...))
}

func (m mortal) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return m.die("patch", obj, m.Client.Patch(ctx, obj, patch, opts...))
}

func (m mortal) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return m.die("delete", obj, m.Client.Delete(ctx, obj, opts...))
}

func (m mortal) die(verb string, obj client.Object, err error) error {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(obj).Elem().Name()
	}
	write := strings.Join([]string{verb, kind, obj.GetName()}, " ")
	if err != nil || m.of.deaths == nil || m.of.deaths[write] {
		return err
	}
	m.of.deaths[write] = true
	return errKilled
}

// killed restarts an agent that was killed during its actions, and reports whether it was.
func (s *site) killed(w *world, err error) bool {
	w.t.Helper()
	if errors.Is(err, errKilled) {
		w.restart(s.id)
		return true
	}
	w.check(err)
	return false
}
