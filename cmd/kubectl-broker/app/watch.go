package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

func newWatchCommand(p *plugin) *cobra.Command {
	return &cobra.Command{
		Use:   "watch [NAME]",
		Short: "Print a line for every change of a phase or condition, as it happens.",
		Long: `Prints a line whenever the phase or a condition of one of this product's objects
changes, until it is interrupted. With NAME only for what belongs to that request,
reservation or cluster.`,
		Example: `  kubectl broker watch
  kubectl broker watch res-k3v9x2m7qa --context rome`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeFirst(listNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.watchObjects(cmd.Context(), strings.Join(args, ""))
		},
	}
}

// happened is a change of an object or, if err is set, the end of a watch with that error.
type happened struct {
	kind   watch.EventType
	object runtime.Object
	err    error
}

func (p *plugin) watchObjects(ctx context.Context, name string) error {
	query, known := view.ParseQuery(name, "")
	if !known {
		return newUsageError("%q is no type", name)
	}
	c, err := p.connectSelected()
	if err != nil {
		return err
	}
	tracker, paint := view.NewTracker(), p.painter()
	events, err := c.followChanges(ctx, func(o runtime.Object) { tracker.Remember(o) }, p.noteRemark)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.ErrOut, "watching %s; Ctrl-C ends it\n", c.describeRoles())
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-events:
			if e.err != nil {
				return e.err
			}
			changes := tracker.Observe(e.object, p.now())
			if e.kind == watch.Deleted {
				changes = tracker.Forget(e.object, p.now())
			}
			if name != "" && !view.Concerns(e.object, query) {
				continue
			}
			for i := range changes {
				if _, err := fmt.Fprintln(p.Out, changes[i].Describe(paint)); err != nil {
					return err
				}
			}
		}
	}
}

// noteRemark writes a remark for the user to stderr, so that it does not mix with the output.
func (p *plugin) noteRemark(format string, args ...any) { fmt.Fprintf(p.ErrOut, format+"\n", args...) }

// followChanges watches the cluster's objects and returns a channel with their changes. It calls known for each
// object that exists at the beginning. It skips kinds that the user may not watch, and tells the user with note.
func (c *connection) followChanges(ctx context.Context, known func(runtime.Object), note func(string, ...any)) (<-chan happened, error) {
	events := make(chan happened)
	followed := 0
	for _, k := range view.KindsOf(c.broker, c.member) {
		if k.Kind == "Node" {
			continue
		}
		resource, namespace := k.Plural, c.scopeNamespace()
		start, err := c.startWatch(ctx, k.List, namespace, known)
		if isDenied(err) && namespace == "" {
			namespace = c.namespace
			if start, err = c.startWatch(ctx, k.List, namespace, known); err == nil {
				note("not shown: %s outside namespace %s: you may not watch them", resource, namespace)
			}
		}
		if isDenied(err) {
			note("not shown: %s: you may not watch them", resource)
			continue
		}
		if apierrors.IsNotFound(err) {
			note("not shown: %s: the cluster does not serve this kind", resource)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", resource, err)
		}
		followed++
		go c.forwardEvents(ctx, k.List, namespace, start, events)
	}
	if followed == 0 {
		return nil, fmt.Errorf("you may not watch any of this product's objects in %s", c.describeRoles())
	}
	return events, nil
}

// startWatch lists the objects of a kind, calls known for each of them, and watches for changes after the list.
func (c *connection) startWatch(ctx context.Context, list client.ObjectList, namespace string, known func(runtime.Object)) (watch.Interface, error) {
	all, ok := list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%T is no list", list)
	}
	if err := c.List(ctx, all, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	err := meta.EachListItem(all, func(o runtime.Object) error {
		known(o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.Watch(ctx, list, &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: all.GetResourceVersion(), AllowWatchBookmarks: true}})
}

// forwardEvents sends the changes from a watch to events until ctx is done, or until the user may no longer watch,
// which it sends as an error. The API server ends every watch after some minutes. forwardEvents then waits for the
// time calm, starts another one, and first sends all existing objects as modified, because any of them may have
// changed in between. It sends no deletion that happened in between.
func (c *connection) forwardEvents(ctx context.Context, list client.ObjectList, namespace string, w watch.Interface, events chan<- happened) {
	send := func(e happened) {
		select {
		case events <- e:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		for e := range w.ResultChan() {
			switch e.Type {
			case watch.Added, watch.Modified, watch.Deleted:
				send(happened{kind: e.Type, object: e.Object})
			}
		}
		w.Stop()
		select { // a proxy may end every watch at once, or the API server not answer
		case <-ctx.Done():
			return
		case <-time.After(calm):
		}
		var err error
		w, err = c.startWatch(ctx, list, namespace, func(o runtime.Object) { send(happened{kind: watch.Modified, object: o}) })
		if ctx.Err() == nil && isDenied(err) {
			send(happened{err: fmt.Errorf("the watch ended: %w", err)})
			return
		}
		if err != nil {
			w = watch.NewEmptyWatch()
		}
	}
}

// watchFlag adds the flag --watch to a command.
func watchFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("watch", "w", false, "print it again whenever an object has changed, at most every two seconds, until it is interrupted")
}

// calm is the shortest time between two outputs with --watch.
const calm = 2 * time.Second

// repeatOnChange calls show once. With --watch (the parameter again), it repeats the call whenever an object has
// changed, until the user ends the command.
func (p *plugin) repeatOnChange(ctx context.Context, again bool, show func(context.Context) error) error {
	if !again {
		return show(ctx)
	}
	c, err := p.connectSelected()
	if err != nil {
		return err
	}
	events, err := c.followChanges(ctx, func(runtime.Object) {}, func(string, ...any) {})
	if err != nil {
		return err
	}
	for {
		if err := show(ctx); err != nil && !errors.Is(err, errAttention) {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if done, err := waitForChange(ctx, events); done || err != nil {
			return err
		}
		if _, err := fmt.Fprintln(p.Out); err != nil {
			return err
		}
	}
}

// waitForChange waits for a change and then for the duration calm, so that several changes cause one output. done is
// true if the user has ended the command.
func waitForChange(ctx context.Context, events <-chan happened) (done bool, err error) {
	var over <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return true, nil
		case <-over:
			return false, nil
		case e := <-events:
			if e.err != nil {
				return false, e.err
			}
			if over == nil {
				over = time.After(calm)
			}
		}
	}
}
