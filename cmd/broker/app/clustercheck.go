package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
)

// checkLeader checks by the age of the lease that some broker leads. Only this check notices if all
// replicas hang, because the objects that other checks read then stay as they were.
func (o *checkOptions) checkLeader(ctx context.Context, c client.Reader) checkup.Finding {
	lease := checkup.Lease{ObjectKey: client.ObjectKey{Namespace: o.namespace, Name: leaseName}, Process: "broker", Now: time.Now}
	o.leader = lease.Check(ctx, c, "the broker runs without --leader-elect, or in another --namespace")
	return o.leader
}

// checkClusters checks the states that the broker last reported about the clusters. The check fails
// if no broker leads, because then nobody updates these states.
func (o *checkOptions) checkClusters(ctx context.Context, c client.Reader) checkup.Finding {
	list := &brokerv1alpha1.ClusterAdvertisementList{}
	if err := c.List(ctx, list); err != nil {
		return checkup.Fail("", "%v", err)
	}
	found := judgeClusters(list.Items)
	if o.leader.Level == checkup.Failed {
		return checkup.Fail("no broker updates the ClusterAdvertisements: see leader above", "as last reported: %s", found.Message)
	}
	return found
}

// clusterGroups lists the states in which clusters take no new reservations, in the order in which
// judgeClusters lists them. reason is the reason of condition Ready in this state. A state without
// a remedy is one that an administrator or operator has chosen.
var clusterGroups = []struct{ reason, title, remedy string }{
	{string(brokerv1alpha1.ClusterAdvertisementStale), "silent", remedySilent},
	{string(brokerv1alpha1.ClusterAdvertisementInactive), "silent for long", remedySilent},
	{brokerv1alpha1.ReasonAwaitingHoldings, "yet to announce their holdings", "the journal was restored: check that their agents run"},
	{string(lending.ProviderNotReady), "without a working Liqo", "run agent check there"},
	{string(decision.Paused), "paused after failures", "see condition Reliable of their ClusterAdvertisements"},
	{string(decision.Denied), "denied", ""},
	{string(decision.Cordoned), "cordoned or drained by BrokerConfig.spec.drains", ""},
	{string(lending.ProviderLeaving), "uninstalled", ""},
	{string(lending.LendingPaused), "paused by their LendingPolicies", ""},
}

const remedySilent = "run agent check there; silent clusters get nothing new; broker forget removes one that is gone for good"

// judgeClusters counts the clusters that take new reservations, and lists the other clusters by
// state.
func judgeClusters(all []brokerv1alpha1.ClusterAdvertisement) checkup.Finding {
	if len(all) == 0 {
		return checkup.Warn("install an agent in a cluster that should lend, see docs/install.md", "no cluster has advertised capacity")
	}
	open, byReason, other := 0, map[string][]string{}, []string{}
	known := map[string]bool{}
	for _, g := range clusterGroups {
		known[g.reason] = true
	}
	for i := range all {
		ready := meta.FindStatusCondition(all[i].Status.Conditions, brokerv1alpha1.ConditionReady)
		switch id := all[i].Spec.ClusterID; {
		case ready == nil:
			other = append(other, id+" (the broker has not processed it)")
		case ready.Status == "True":
			open++
		case known[ready.Reason]:
			byReason[ready.Reason] = append(byReason[ready.Reason], id)
		default:
			other = append(other, fmt.Sprintf("%s (%s)", id, ready.Message))
		}
	}
	parts, remedies := []string{fmt.Sprintf("%d of %d take new reservations", open, len(all))}, []string{}
	for _, g := range clusterGroups {
		ids := byReason[g.reason]
		if len(ids) == 0 {
			continue
		}
		parts = append(parts, g.title+": "+strings.Join(ids, ", "))
		if g.remedy != "" && !strings.Contains(strings.Join(remedies, "; "), g.remedy) {
			remedies = append(remedies, g.remedy)
		}
	}
	if len(other) > 0 {
		parts = append(parts, "refused: "+strings.Join(other, ", "))
		remedies = append(remedies, "correct or delete their ClusterAdvertisements")
	}
	if len(remedies) > 0 {
		return checkup.Warn(strings.Join(remedies, "; "), "%s", strings.Join(parts, "; "))
	}
	return checkup.Found("%s", strings.Join(parts, "; "))
}
