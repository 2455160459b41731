package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	enforcementcontroller "github.com/mehdiazizian/liqo-resource-broker/controllers/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	agentwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/agent"
)

// offloaded caches the pods of consumers and the placeholder pods, and counts what each placement uses.
type offloaded struct {
	pods cache.Cache
	book *enforcement.Book
	// synced reports whether book has counted every existing pod.
	synced func() bool
}

// addOffloaded starts watching consumers' pods and placeholder pods, on every replica. It does nothing if the agent
// does not peer.
func (a *agent) addOffloaded(config *rest.Config) error {
	if a.peering == nil {
		return nil
	}
	made, err := labels.Parse(agentv1alpha1.PlaceholderLabel)
	if err != nil {
		return err
	}
	shadowed, err := labels.Parse(guard.ShadowPodPods)
	if err != nil {
		return err
	}
	namespaces := map[string]cache.Config{metav1.NamespaceAll: {LabelSelector: shadowed}}
	if a.podNamespace != "" {
		namespaces[a.podNamespace] = cache.Config{LabelSelector: made}
	}
	pods, err := cache.New(config, cache.Options{
		Scheme: a.mgr.GetScheme(), Mapper: a.mgr.GetRESTMapper(), HTTPClient: a.mgr.GetHTTPClient(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: namespaces}},
	})
	if err != nil {
		return fmt.Errorf("watching consumers' pods: %w", err)
	}
	informer, err := pods.GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching consumers' pods: %w", err)
	}
	a.offloaded = &offloaded{pods: pods, book: enforcement.NewBook()}
	registration, err := informer.AddEventHandler(a.offloaded.book)
	if err != nil {
		return fmt.Errorf("watching consumers' pods: %w", err)
	}
	a.offloaded.synced = registration.HasSynced
	return a.mgr.Add(onEveryReplica{pods})
}

// onEveryReplica is a cache that runs on every replica. All replicas answer webhooks, and none is ready before this
// cache has synced. By default, a manager starts a cache of several namespaces only on the leader, so a new replica
// would never become ready while the old one leads.
type onEveryReplica struct{ cache.Cache }

// NeedLeaderElection returns false, so that the manager starts the cache on every replica.
func (onEveryReplica) NeedLeaderElection() bool { return false }

// lentNodes returns the nodes on which the pods of consumers may run, and false until the agent has read the nodes.
func (a *agent) lentNodes() (enforcement.LentNodes, bool) {
	l, known := a.watcher.Lendable()
	return enforcement.LentNodes{Selector: l.Nodes, ControlPlanes: l.ControlPlanes, Barred: l.Barred, Taints: l.Taints}, known
}

// offeredTaints returns the taints of nodes that this cluster lends to requests that tolerate them. Without the webhook
// it returns none, because only the webhook keeps the pods of other placements off these nodes.
func (a *agent) offeredTaints(configured []brokerv1alpha1.Taint) []brokerv1alpha1.Taint {
	if len(configured) > 0 && !a.webhook.Enabled() {
		a.log.Info("WARNING: offer.taints is ignored, because the agent's webhook is off: set webhook.enabled=true in the agent's chart")
		return nil
	}
	return configured
}

// guardedCondition returns a function that computes the condition Guarded: whether admission limits peers to their
// reservations. The function is nil if the agent does not peer.
func (a *agent) guardedCondition() func(context.Context) *metav1.Condition {
	if a.peering == nil {
		return nil
	}
	if c := disabledGuard(a.bindSlices, a.webhook.Enabled()); c != nil {
		return func(context.Context) *metav1.Condition { return c }
	}
	return (&policyWatch{reader: a.mgr.GetAPIReader(), names: a.guardPolicies, clock: clock.RealClock{}}).condition
}

// disabledGuard returns the condition Guarded of an installation without policies or webhooks, nil if it has both.
func disabledGuard(policies, webhooks bool) *metav1.Condition {
	c := &metav1.Condition{Type: agentv1alpha1.ConditionGuarded, Status: metav1.ConditionFalse}
	switch {
	case !policies:
		c.Reason = agentv1alpha1.ReasonGuardDisabled
		c.Message = "the admission policies for other clusters are off: one that has a reservation here may raise its own quota and reach nodes and other namespaces; set guard.enabled=true in the agent's chart"
	case !webhooks:
		c.Reason = agentv1alpha1.ReasonWebhookDisabled
		c.Message = "the agent's webhook is off: a cluster that has a reservation here may get a certificate of any groups, and its pods beyond the grant or on nodes that are not lent start before they are evicted; set webhook.enabled=true in the agent's chart"
	default:
		return nil
	}
	return c
}

func (a *agent) addEnforcement(*rest.Config) error {
	if a.peering == nil {
		return nil
	}
	if c := disabledGuard(a.bindSlices, a.webhook.Enabled()); c != nil {
		a.log.Info("WARNING: " + c.Message)
	}
	return enforcementcontroller.SetupWithManager(a.mgr, enforcementcontroller.Options{
		Namespace: a.instructionNamespace, Book: a.offloaded.book, Peering: a.peering,
		Recorder: a.mgr.GetEventRecorder(version.Product), Clock: clock.RealClock{},
	})
}

// addOffloadedWebhooks registers the webhooks for offloaded pods. The replica becomes ready only when it has read the
// pods and nodes, so that the API server does not call it earlier.
func (a *agent) addOffloadedWebhooks() error {
	err := agentwebhooks.SetupOffloadedPods(a.mgr, agentwebhooks.OffloadedPods{
		InstructionNamespace: a.instructionNamespace, Book: a.offloaded.book, Synced: a.offloaded.synced,
		Nodes: a.lentNodes, Guards: a.peering.Guards, ForbidHostAccess: a.forbidHostAccess, Clock: clock.RealClock{},
		Pods: a.offloaded.pods, HasShadowPod: a.peering.HasShadowPod, DeleteShadowPod: a.peering.DeleteShadowPod,
	})
	if err != nil {
		return err
	}
	return a.mgr.AddReadyzCheck("offloaded-pods", func(*http.Request) error {
		if _, known := a.lentNodes(); !known || !a.offloaded.synced() {
			return errors.New("still reading consumers' pods and nodes")
		}
		return nil
	})
}
