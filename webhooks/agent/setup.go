// Package agent judges what people ask for in a member cluster, ResourceRequests, mends
// what peered clusters write into it, NamespaceMaps, and makes pods such as the provider of
// their reservation admits. The checks are functions of
// values; the others fetch the values.
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

// Setup serves the webhook of ResourceRequests. It reads from the API server, not
// from a cache: the last request and the last quota count.
func Setup(mgr ctrl.Manager) error {
	reader := mgr.GetAPIReader()
	return webhooks.Register(mgr, &agentv1alpha1.ResourceRequest{}, webhooks.Kind[*agentv1alpha1.ResourceRequest]{
		Spec: func(rr *agentv1alpha1.ResourceRequest) any { return rr.Spec },
		Judge: func(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (webhooks.Verdict, error) {
			return judge(ctx, reader, rr)
		},
	})
}

func judge(ctx context.Context, c client.Reader, rr *agentv1alpha1.ResourceRequest) (webhooks.Verdict, error) {
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
	_, closed, err := inbox.Namespaces(ctx, c, rr)
	if err != nil {
		return webhooks.Verdict{}, err
	}
	return CheckResourceRequest(rr, b, others.Items, closed), nil
}
