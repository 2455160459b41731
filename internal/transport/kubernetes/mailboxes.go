// Package kubernetes carries what an agent says to its broker through ClusterMailboxes
// in the broker's cluster: for agents that reach that cluster's API server and nothing
// else of it.
//
// One request is one ClusterMailbox in the namespace of the agent's cluster. The broker
// answers in its status; the agent watches for that, and deletes it. Everything above is
// that of the http transport.
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// discardTimeout bounds the deletion of a mailbox. What stays the broker deletes.
const discardTimeout = 5 * time.Second

// Options of a transport. Both are required.
type Options struct {
	// Config reaches the API server of the broker's cluster, as the account that the
	// broker's administrator made for this cluster.
	Config *rest.Config
	// Namespace of this cluster there.
	Namespace string
}

// New makes a transport; it does not connect. The broker knows its callers by their
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

// mailboxes are those of one cluster.
type mailboxes struct {
	client    client.WithWatch
	namespace string
	// discards are deletions under way.
	discards sync.WaitGroup
}

// RoundTrip is one mailbox.
func (m *mailboxes) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	ctx := r.Context()
	box := &brokerv1alpha1.ClusterMailbox{}
	// The name is chosen here: a mailbox of which nobody heard that it was made can be
	// deleted, too.
	box.Namespace, box.Name = m.namespace, "call-"+string(uuid.NewUUID())
	var err error
	box.Spec, err = wire.PackRequest(r)
	if r.Body != nil {
		_ = r.Body.Close() // read to its end, or of no use
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	if err := m.client.Create(ctx, box); err != nil {
		m.discard(ctx, box)
		return nil, fmt.Errorf("creating a ClusterMailbox in namespace %q of the broker's cluster: %w", m.namespace, cause(ctx, err))
	}
	defer m.discard(ctx, box)
	answered, err := m.await(ctx, box)
	if err != nil {
		return nil, fmt.Errorf("waiting for the broker's answer in ClusterMailbox %s/%s: %w", box.Namespace, box.Name, cause(ctx, err))
	}
	return wire.OpenAnswer(r, &answered.Status)
}

// Close waits until no mailbox is left.
func (m *mailboxes) Close() { m.discards.Wait() }

// await returns the mailbox with its answer.
func (m *mailboxes) await(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) (*brokerv1alpha1.ClusterMailbox, error) {
	this := &client.ListOptions{Namespace: box.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", box.Name)}
	changes := &toolscache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		options := *this
		options.Raw = &o
		return m.client.Watch(ctx, &brokerv1alpha1.ClusterMailboxList{}, &options)
	}}
	event, err := toolswatch.Until(ctx, box.ResourceVersion, changes, answered)
	if err != nil {
		return nil, err
	}
	return event.Object.(*brokerv1alpha1.ClusterMailbox), nil
}

func answered(event watch.Event) (bool, error) {
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

// discard deletes a mailbox that nobody reads any more; a broker that is still at work
// on it stops.
func (m *mailboxes) discard(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	m.discards.Go(func() {
		defer cancel()
		// One that stays, or never was, is no loss.
		_ = m.client.Delete(ctx, box)
	})
}

// cause is why a call ended, of which not every client speaks.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
