package local

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestReservationsOfADeniedClusterStayUntilReleased denies consumer and provider while pods run. Nothing is taken
// down. When the clusters are admitted again, the agents deliver their delayed reports.
func TestReservationsOfADeniedClusterStayUntilReleased(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	r, _ := readyRequest(t, rome, "held", small())
	pods := run(t, env, rome, r)
	provider := r.Status.TargetClusterID

	config := configure(t, env, brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"rome", provider}})
	refused, err := rome.Request(ctx, namespace, "refused", small())
	check(t, err)
	check(t, rome.AwaitPhase(ctx, refused, patience, agentv1alpha1.RequestFailed))
	check(t, env.AwaitHeld(ctx, "rome", 1, e2e.Once))
	check(t, rome.AwaitReady(ctx, r, e2e.Once))
	check(t, pods.Unchanged(ctx))

	check(t, rome.DeleteDeployments(ctx, namespace))
	check(t, rome.Delete(ctx, r))
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		if err := rome.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, agentv1alpha1.ConditionReady)
		if r.Status.Phase != agentv1alpha1.RequestReleasing || c == nil || c.Status != metav1.ConditionFalse {
			return "the request to wait for the broker", nil
		}
		return "", nil
	}))

	allowed := config.DeepCopy()
	allowed.Spec.DeniedClusters = nil
	check(t, env.Broker.Patch(ctx, allowed, client.MergeFrom(config)))
	check(t, rome.AwaitGone(ctx, r, patience))
	check(t, env.AwaitHeld(ctx, "rome", 0, patience))
	check(t, env.AwaitAdvertised(ctx, patience))
}
