package app

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// newOutbox returns the outbox of the broker's notifications. brokerOf is not called before the outbox runs,
// because the broker is made later than the outbox. The outbox reads Secrets without a cache, because the
// broker may get but not list them.
func newOutbox(mgr ctrl.Manager, o *options, store journal.Store, journalOptions journal.Options, brokerOf func() *broker.Broker, log logr.Logger) *outbox.Outbox {
	reader := mgr.GetAPIReader()
	recorder := mgr.GetEventRecorder("liqo-resource-broker")
	return outbox.New(outbox.Options{
		Store: store, Journal: broker.JournalName, JournalOptions: journalOptions,
		Position: func() (uint64, bool) { return brokerOf().Position() },
		SignHead: func(at journal.Place) *brokerv1alpha1.Receipt { return brokerOf().SignHead(at) },
		Secret: func(ctx context.Context, name string) (map[string][]byte, error) {
			secret := &corev1.Secret{}
			if err := reader.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, secret); err != nil {
				return nil, fmt.Errorf("%w; the chart's value notifications.secrets lets the broker read it", err)
			}
			return secret.Data, nil
		},
		Warn: func(reason, note string) {
			about := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}}
			// kubectl describe shows only events with the UID. An error leaves it out.
			_ = mgr.GetClient().Get(context.Background(), client.ObjectKeyFromObject(about), about)
			recorder.Eventf(about, nil, corev1.EventTypeWarning, reason, "Notify", "%s", message.Clip(note, message.MaxNote))
		},
		Directory: o.exportDirectory, Loopback: o.notifyLoopback, Now: time.Now, Log: log,
		Start: func(run func(context.Context) error) error { return mgr.Add(onEveryReplica(run)) },
	})
}

// onEveryReplica runs without the manager's leader election, which the broker does not use.
type onEveryReplica manager.RunnableFunc

// Start implements manager.Runnable.
func (r onEveryReplica) Start(ctx context.Context) error { return r(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (onEveryReplica) NeedLeaderElection() bool { return false }
