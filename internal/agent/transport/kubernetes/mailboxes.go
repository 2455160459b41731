// Package kubernetes sends an agent's calls to the broker as ClusterMailbox objects in the broker's
// cluster. It is for agents that reach only the API server of that cluster.
//
// Each request is a ClusterMailbox in the namespace that belongs to the agent's cluster. The broker
// writes its answer into the status. The agent watches for the answer and then deletes the object.
// The http transport does everything else, such as retries.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// discardTimeout limits the attempt to delete a mailbox. If the attempt fails, the broker deletes
// the mailbox later.
const discardTimeout = 5 * time.Second

// Options of a transport. All are required.
type Options struct {
	// Config connects to the API server of the broker's cluster, with this cluster's account there.
	Config *rest.Config
	// Namespace is this cluster's namespace in the broker's cluster.
	Namespace string
}

// New returns a transport, without connecting. The broker identifies the calling cluster by the
// namespace of its mailboxes.
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

// mailboxes sends requests as mailboxes in the namespace of one cluster.
type mailboxes struct {
	client    client.WithWatch
	namespace string
	// calls is locked for reading by each call, until its mailbox is deleted.
	calls sync.RWMutex
}

// RoundTrip sends one request as a mailbox and returns the broker's answer.
func (m *mailboxes) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	ctx := r.Context()
	box := &brokerv1alpha1.ClusterMailbox{}
	// The agent chooses the name, so that it can delete the mailbox even if it never learns that the
	// API server has created it.
	box.Namespace, box.Name = m.namespace, "call-"+string(uuid.NewUUID())
	var err error
	box.Spec, err = wire.PackRequest(r)
	if r.Body != nil {
		_ = r.Body.Close() // the body was read or is unusable, so an error does not matter
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
	}
	m.calls.RLock()
	defer m.discardMailbox(ctx, box)
	if err := m.client.Create(ctx, box); err != nil {
		return nil, fmt.Errorf("creating a ClusterMailbox in namespace %q of the broker's cluster: %w", m.namespace, endCause(ctx, err))
	}
	answered, err := m.awaitAnswer(ctx, box)
	if err != nil {
		return nil, fmt.Errorf("waiting for the broker's answer in ClusterMailbox %s/%s: %w", box.Namespace, box.Name, endCause(ctx, err))
	}
	return wire.OpenAnswer(r, &answered.Status)
}

// Close waits until no call is in progress, and every mailbox is deleted.
func (m *mailboxes) Close() {
	m.calls.Lock()
	defer m.calls.Unlock()
}

// awaitAnswer watches a mailbox and returns it with the broker's answer.
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

// discardMailbox ends a call in the background. The deletion also makes the broker stop work on it.
func (m *mailboxes) discardMailbox(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	go func() {
		defer m.calls.RUnlock()
		defer cancel()
		// An error is ignored, because the broker also deletes old mailboxes.
		_ = m.client.Delete(ctx, box)
	}()
}

// endCause returns the error of the context if the context has ended, otherwise err. The errors of
// some clients do not wrap the context's error.
func endCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
