package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// pageSize is how many objects one answer of the API server contains. It limits the memory that both sides need.
const pageSize = 500

// gatherer fills a snapshot. Its reads run concurrently.
type gatherer struct {
	*connection
	mu       sync.Mutex
	snapshot *view.Snapshot
	group    *errgroup.Group
}

// depth says how much of each Reservation a command reads: whole or summary.
type depth bool

const (
	// whole reads every object.
	whole depth = false
	// summary reads only phase, requester and provider of Reservations that evidently have no problem.
	summary depth = true
)

// gatherObjects reads the objects of a cluster. If namespace is "", it reads all namespaces, or the user's current
// namespace if the user may not list all. Objects that cannot be read become gaps of the snapshot.
func (c *connection) gatherObjects(ctx context.Context, namespace string, at time.Time, depth depth) (*view.Snapshot, error) {
	g := &gatherer{connection: c, snapshot: &view.Snapshot{Context: c.context, Flags: c.flags, At: at}}
	g.group, ctx = errgroup.WithContext(ctx)
	if c.broker {
		g.snapshot.Broker = &view.BrokerObjects{}
	}
	if c.member {
		g.snapshot.Member = &view.MemberObjects{}
	}
	for _, k := range view.KindsOf(c.broker, c.member) {
		in, read := namespace, func(ctx context.Context, in string) error { return g.listPages(ctx, in, &k) }
		switch {
		case !k.IsNamespaced():
			in = clusterScoped
		case k.Kind == "Reservation" && depth == summary:
			read = g.readSummary
		}
		g.readInBackground(ctx, k.Plural, in, read)
	}
	if err := g.group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(g.snapshot.Gaps, func(a, b view.Gap) int { return strings.Compare(a.Resource, b.Resource) })
	return g.snapshot, nil
}

// clusterScoped takes the place of the namespace for kinds without namespaces.
const clusterScoped = "/"

// readInBackground runs a function that reads objects (the argument in) in the background. If the user may not read
// all namespaces, it runs the function again for the user's own namespace. It records a gap for objects that could
// not be read.
func (g *gatherer) readInBackground(ctx context.Context, resource, namespace string, in func(ctx context.Context, namespace string) error) {
	g.group.Go(func() error {
		err := in(ctx, namespace)
		if isDenied(err) && namespace == "" {
			gap := gapOf(resource, err)
			if err = in(ctx, g.namespace); err == nil {
				gap.Namespace = g.namespace
				g.noteGap(gap)
			}
		}
		if err != nil && ctx.Err() == nil {
			g.noteGap(gapOf(resource, err))
			return nil
		}
		return err
	})
}

// gapOf returns the gap for objects that could not be read because of an error.
func gapOf(resource string, err error) view.Gap {
	if isDenied(err) {
		return view.Gap{Kind: view.Hidden, Resource: resource, Message: err.Error()}
	}
	return view.Gap{Kind: view.Unread, Resource: resource, Message: err.Error()}
}

// listPages adds the objects of a kind to the snapshot, page by page.
func (g *gatherer) listPages(ctx context.Context, namespace string, k *view.Kind) error {
	options := []client.ListOption{client.InNamespace(strings.TrimPrefix(namespace, clusterScoped))}
	if k.Kind == "Node" {
		options = append(options, client.HasLabels{agentv1alpha1.ReservationLabel})
	}
	next := ""
	for {
		page, ok := k.List.DeepCopyObject().(client.ObjectList)
		if !ok {
			return fmt.Errorf("%T is no list", k.List)
		}
		err := g.List(ctx, page, append(options, client.Limit(pageSize), client.Continue(next))...)
		if apierrors.IsResourceExpired(err) && next != "" {
			return errors.New("the list changed too much while it was read: try again")
		}
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.snapshot.Add(page)
		g.mu.Unlock()
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

func (g *gatherer) noteGap(gap view.Gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.snapshot.Gaps = append(g.snapshot.Gaps, gap)
}

func (c *connection) readPod(ctx context.Context, s *view.Snapshot, namespace, name string) {
	pod := &corev1.Pod{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
	switch {
	case err == nil:
		s.Pods = append(s.Pods, pod)
	case !apierrors.IsNotFound(err):
		s.Gaps = append(s.Gaps, gapOf("pods", err))
	}
}

func (c *connection) readEvents(ctx context.Context, s *view.Snapshot, about []view.Ref) {
	for _, r := range about {
		namespace := r.Namespace
		if namespace == "" {
			namespace = metav1.NamespaceDefault // where events about objects without namespace are
		}
		events := &corev1.EventList{}
		err := c.List(ctx, events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": r.Name})
		if err != nil {
			s.Gaps = append(s.Gaps, gapOf("events in namespace "+namespace, err))
		}
		for i := range events.Items {
			if view.AboutOf(&events.Items[i]).Kind == r.Kind {
				s.Events = append(s.Events, events.Items[i])
			}
		}
	}
}
