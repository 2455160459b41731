// Package agent contains the webhooks of a member cluster. They validate ResourceRequests, make
// pods comply with their reservation, hold consumers' pods to their grant, and check what
// peered clusters write. Checks are functions of values; handlers fetch the values.
package agent

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// +kubebuilder:rbac:groups="",resources=limitranges;resourcequotas,verbs=list
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=list

// Setup registers the webhook for ResourceRequests. It reads from the API server instead of a
// cache, because the latest request and the latest quota count. clusterID is the ID of this
// cluster; it may be empty while the agent has not enrolled.
func Setup(mgr ctrl.Manager, clusterID string) error {
	reader := mgr.GetAPIReader()
	return webhooks.Register(mgr, &agentv1alpha1.ResourceRequest{}, webhooks.Kind[*agentv1alpha1.ResourceRequest]{
		Spec: func(rr *agentv1alpha1.ResourceRequest) any { return rr.Spec },
		Judge: func(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (webhooks.Verdict, error) {
			return validateRequest(ctx, reader, clusterID, rr)
		},
	})
}

func validateRequest(ctx context.Context, c client.Reader, clusterID string, rr *agentv1alpha1.ResourceRequest) (webhooks.Verdict, error) {
	b, err := bounds.Read(ctx, c, rr.Namespace)
	if err != nil {
		return webhooks.Verdict{}, err
	}
	var others agentv1alpha1.ResourceRequestList
	if b.Sums() {
		if err := c.List(ctx, &others, client.InNamespace(rr.Namespace)); err != nil {
			return webhooks.Verdict{}, fmt.Errorf("listing ResourceRequests of namespace %q: %w", rr.Namespace, err)
		}
	}
	access, err := inbox.Namespaces(ctx, c, rr)
	if err != nil {
		return webhooks.Verdict{}, err
	}
	return CheckResourceRequest(rr, clusterID, b, others.Items, access), nil
}
