// Package leaving ends what a cluster uses and lends before its agent is uninstalled.
package leaving

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// Uses finds and ends what this cluster uses and lends.
type Uses struct {
	Client client.Client
	// Namespace is the namespace of the instructions.
	Namespace string
	// Release asks the broker to release reservations.
	Release func(ctx context.Context, names []string) error
}

// use lists the capacity that this cluster uses of other clusters, and the capacity that it lends to them.
type use struct {
	requests []agentv1alpha1.ResourceRequest
	consumed []agentv1alpha1.ReservationInstruction
	provided []agentv1alpha1.ProviderInstruction
}

// findUse lists what this cluster uses and lends. It leaves out requests that have ended. It includes all instructions:
// the agent deletes an instruction once nothing of its placement is left.
func (s Uses) findUse(ctx context.Context) (use, error) {
	requests, consumed, provided := &agentv1alpha1.ResourceRequestList{}, &agentv1alpha1.ReservationInstructionList{}, &agentv1alpha1.ProviderInstructionList{}
	err := errors.Join(
		listObjects(ctx, s.Client, requests), listObjects(ctx, s.Client, consumed, client.InNamespace(s.Namespace)),
		listObjects(ctx, s.Client, provided, client.InNamespace(s.Namespace)),
	)
	found := use{consumed: consumed.Items, provided: provided.Items}
	for i := range requests.Items {
		switch requests.Items[i].Status.Phase {
		case agentv1alpha1.RequestReleased, agentv1alpha1.RequestFailed:
		default:
			found.requests = append(found.requests, requests.Items[i])
		}
	}
	return found, err
}

// listObjects lists objects. If the CRD is missing, the list stays empty.
func listObjects(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) error {
	err := c.List(ctx, list, options...)
	if err == nil || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("listing %T: %w", list, err)
}

func (u use) describeLines() []string {
	var out []string
	for i := range u.requests {
		r := &u.requests[i]
		line := fmt.Sprintf("ResourceRequest %s/%s: %s", r.Namespace, r.Name, r.Status.Phase)
		if r.Status.TargetClusterID != "" {
			line += fmt.Sprintf(", uses %s (%s)", r.Status.TargetClusterID, r.Status.ReservationName)
		}
		out = append(out, line)
	}
	for i := range u.consumed {
		r := &u.consumed[i]
		if u.servesRequest(r) {
			continue // the line of its request is enough
		}
		out = append(out, fmt.Sprintf("ReservationInstruction %s/%s: %s, uses %s", r.Namespace, r.Name, r.Status.Phase, r.Spec.TargetClusterID))
	}
	for i := range u.provided {
		p := &u.provided[i]
		out = append(out, fmt.Sprintf("ProviderInstruction %s/%s: %s, lends to %s", p.Namespace, p.Name, p.Status.Phase, p.Spec.RequesterClusterID))
	}
	return out
}

// servesRequest reports whether an instruction serves one of u.requests.
func (u use) servesRequest(inst *agentv1alpha1.ReservationInstruction) bool {
	ref := inst.Spec.RequestRef
	return ref != nil && slices.ContainsFunc(u.requests, func(r agentv1alpha1.ResourceRequest) bool { return string(r.UID) == ref.UID })
}

// InUse returns a line for each thing that this cluster uses or lends.
func (s Uses) InUse(ctx context.Context) ([]string, error) {
	found, err := s.findUse(ctx)
	return found.describeLines(), err
}

// End starts to end everything in use: it deletes requests and withdraws from placements. The agent, which still
// runs, does the rest.
func (s Uses) End(ctx context.Context) error {
	found, err := s.findUse(ctx)
	if err != nil {
		return err
	}
	var trouble []error
	for i := range found.requests {
		if r := &found.requests[i]; r.DeletionTimestamp == nil {
			trouble = append(trouble, client.IgnoreNotFound(s.Client.Delete(ctx, r)))
		}
	}
	// This cluster has no requests for reservations that were created in the broker's cluster.
	var names []string
	for i := range found.consumed {
		if spec := &found.consumed[i].Spec; spec.RequestRef == nil && !spec.Release {
			names = append(names, spec.ReservationName)
		}
	}
	if len(names) > 0 {
		trouble = append(trouble, s.Release(ctx, names))
	}
	for i := range found.provided {
		trouble = append(trouble, withdrawPlacement(ctx, s.Client, &found.provided[i], metav1.Now()))
	}
	return errors.Join(trouble...)
}

// withdrawPlacement withdraws this cluster's acknowledgement of a placement. The agent reports this to the broker,
// which finds another provider for the consumer or ends the reservation. Running pods stay until the consumer has
// removed its side of the placement.
func withdrawPlacement(ctx context.Context, c client.Client, inst *agentv1alpha1.ProviderInstruction, now metav1.Time) error {
	if inst.Spec.Release || meta.IsStatusConditionFalse(inst.Status.Conditions, agentv1alpha1.ConditionAcknowledged) {
		return nil
	}
	before := inst.DeepCopy()
	meta.SetStatusCondition(&inst.Status.Conditions, metav1.Condition{
		Type: agentv1alpha1.ConditionAcknowledged, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonDraining,
		Message: "this cluster stops lending: its agent is being uninstalled", ObservedGeneration: inst.Generation, LastTransitionTime: now,
	})
	err := c.Status().Patch(ctx, inst, patch.IfUnchanged(before))
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("withdrawing from %q: %w", inst.Name, err)
	}
	return nil
}
