package app

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	enforcementcontroller "github.com/mehdiazizian/liqo-resource-broker/controllers/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	agentwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/agent"
)

// addOffloaded starts watching consumers' pods and placeholder pods. It does nothing if the agent does not peer.
func (a *agent) addOffloaded(config *rest.Config) (err error) {
	if a.peering != nil {
		a.offloaded, err = enforcementcontroller.WatchPods(config, a.mgr, a.podNamespace)
	}
	return err
}

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
// reservations. The function returns nil if the agent does not peer.
func (a *agent) guardedCondition() func(context.Context) *metav1.Condition {
	if a.peering == nil {
		return func(context.Context) *metav1.Condition { return nil }
	}
	if c := guard.DisabledCondition(a.bindSlices, a.webhook.Enabled()); c != nil {
		return func(context.Context) *metav1.Condition { return c }
	}
	return (&guard.Policies{Reader: a.mgr.GetAPIReader(), Names: a.guardPolicies, Clock: clock.RealClock{}}).Condition
}

// initRights lets the policies of the chart tell consumers whose tenant namespace a person made.
func (o *options) initRights(ctx context.Context, config *rest.Config) error {
	if !o.bindSlices || o.podNamespace == "" {
		return nil
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return guard.InitRights(ctx, c, o.podNamespace)
}

func (a *agent) addEnforcement(*rest.Config) error {
	if a.peering == nil {
		return nil
	}
	if c := guard.DisabledCondition(a.bindSlices, a.webhook.Enabled()); c != nil {
		a.log.Info("WARNING: " + c.Message)
	}
	return enforcementcontroller.SetupWithManager(a.mgr, enforcementcontroller.Options{
		Namespace: a.instructionNamespace, Book: a.offloaded.Book, Peering: a.peering,
		Recorder: a.mgr.GetEventRecorder(version.Product), Clock: clock.RealClock{},
	})
}

// addOffloadedWebhooks registers the webhooks for offloaded pods. The replica becomes ready only when it has read the
// pods and nodes, so that the API server does not call it earlier.
func (a *agent) addOffloadedWebhooks() error {
	err := agentwebhooks.SetupOffloadedPods(a.mgr, agentwebhooks.OffloadedPods{
		InstructionNamespace: a.instructionNamespace, Book: a.offloaded.Book, Synced: a.offloaded.Synced,
		Nodes: a.lentNodes, Guards: a.peering.Guards, ForbidHostAccess: a.forbidHostAccess, Clock: clock.RealClock{},
		Pods: a.offloaded.Cache, HasShadowPod: a.peering.HasShadowPod, DeleteShadowPod: a.peering.DeleteShadowPod,
	})
	if err != nil {
		return err
	}
	return a.mgr.AddReadyzCheck("offloaded-pods", func(*http.Request) error {
		if _, known := a.lentNodes(); !known || !a.offloaded.Synced() {
			return errors.New("still reading consumers' pods and nodes")
		}
		return nil
	})
}
