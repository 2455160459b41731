package app

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	agentwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/agent"
)

// checkDaemonSets names the DaemonSets whose pods are created on virtual nodes. The agent's webhook
// has not changed them yet, because their templates are older than the webhook.
func checkDaemonSets(ctx context.Context, c client.Reader) checkup.Finding {
	var sets appsv1.DaemonSetList
	err := c.List(ctx, &sets)
	switch {
	case apierrors.IsForbidden(err):
		return checkup.Skip("this account lacks the permission: %v", err)
	case err != nil:
		return checkup.Fail("", "%v", err)
	}
	var names []string
	for i := range sets.Items {
		if ds := &sets.Items[i]; agentwebhooks.MayUseVirtualNodes(ds) {
			names = append(names, ds.Namespace+"/"+ds.Name)
		}
	}
	if len(names) > 0 {
		return checkup.Warn("give their pods the node affinity liqo.io/type NotIn [virtual-node], or restart them with kubectl rollout restart while the agent's webhook runs, which adds it",
			"pods of %s tolerate every taint and are created on virtual nodes, where they never become ready: that blocks rolling updates", strings.Join(names, ", "))
	}
	return checkup.Found("none needlessly uses virtual nodes")
}
