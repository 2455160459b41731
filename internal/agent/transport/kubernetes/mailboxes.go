// Package kubernetes carries an agent's calls to its broker through ClusterMailboxes in the
// broker's cluster, for agents that reach nothing there but the API server.
//
// One request is one ClusterMailbox in the namespace of the agent's cluster. The broker answers
// in its status; the agent watches for the answer and deletes the mailbox. Everything above is
// shared with the http transport.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// discardTimeout bounds the deletion of a mailbox. The broker deletes what remains.
const discardTimeout = 5 * time.Second

// Options of a transport. Both are required.
type Options struct {
	// Config is for the API server of the broker's cluster, with the account that this cluster has
	// there.
	Config *rest.Config
	// Namespace is this cluster's namespace in the broker's cluster.
	Namespace string
}

// New returns a transport; it does not connect. The broker identifies callers by their
// namespace.
func New(o Options) (*http.Transport, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, brokerv1alpha1.GroupVersion)
	if err := brokerv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(o.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("--broker-kubeconfig: %w", err)
	}
	return http.Over(&mailboxes{client: c, namespace: o.Namespace}, "kubernetes://"+o.Namespace)
}

// mailboxes are the mailboxes of one cluster.
type mailboxes struct {
	client    client.WithWatch
	namespace string
	// discards counts deletions in flight.
	discards sync.WaitGroup
}

// RoundTrip sends one request in one mailbox.
func (m *mailboxes) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	ctx := r.Context()
	box := &brokerv1alpha1.ClusterMailbox{}
	// The client chooses the name, so that it can delete a mailbox even if the response to its
	// creation was lost.
	box.Namespace, box.Name = m.namespace, "call-"+string(uuid.NewUUID())
	var err error
	box.Spec, err = wire.PackRequest(r)
	if r.Body != nil {
		_ = r.Body.Close() // already read, or unusable
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	if err := m.client.Create(ctx, box); err != nil {
		m.discardMailbox(ctx, box)
		return nil, fmt.Errorf("creating a ClusterMailbox in namespace %q of the broker's cluster: %w", m.namespace, endCause(ctx, err))
	}
	defer m.discardMailbox(ctx, box)
	answered, err := m.awaitAnswer(ctx, box)
	if err != nil {
		return nil, fmt.Errorf("waiting for the broker's answer in ClusterMailbox %s/%s: %w", box.Namespace, box.Name, endCause(ctx, err))
	}
	return wire.OpenAnswer(r, &answered.Status)
}

// Close waits until all deletions have ended.
func (m *mailboxes) Close() { m.discards.Wait() }

// awaitAnswer returns the mailbox with its answer.
func (m *mailboxes) awaitAnswer(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) (*brokerv1alpha1.ClusterMailbox, error) {
	this := &client.ListOptions{Namespace: box.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", box.Name)}
	changes := &toolscache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		options := *this
		options.Raw = &o
		return m.client.Watch(ctx, &brokerv1alpha1.ClusterMailboxList{}, &options)
	}}
	event, err := toolswatch.Until(ctx, box.ResourceVersion, changes, hasAnswer)
	if err != nil {
		return nil, err
	}
	return event.Object.(*brokerv1alpha1.ClusterMailbox), nil
}

func hasAnswer(event watch.Event) (bool, error) {
	box, ok := event.Object.(*brokerv1alpha1.ClusterMailbox)
	switch {
	case event.Type == watch.Error:
		return false, apierrors.FromObject(event.Object)
	case !ok:
		return false, nil
	case event.Type == watch.Deleted:
		return false, errors.New("it was deleted before there was an answer")
	default:
		return box.Status.Code != 0, nil
	}
}

// discardMailbox deletes a mailbox that is no longer needed; a broker still working on it stops.
func (m *mailboxes) discardMailbox(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	m.discards.Go(func() {
		defer cancel()
		// a mailbox that remains does no harm
		_ = m.client.Delete(ctx, box)
	})
}

// endCause returns the context's error if it ended, which some clients hide.
func endCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
