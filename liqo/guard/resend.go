package guard

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// resendAnnotation holds the time at which the agent last made the consumer's Liqo send a slice
// again.
const resendAnnotation = "broker.fluidos.eu/resend-at"

// A slice that stays incomplete for resendPause is sent again. The pause doubles each time, up to
// longestResendPause, because the consumer may be unreachable.
const (
	resendPause        = 5 * time.Second
	longestResendPause = 5 * time.Minute
)

// resend is when a consumer's Liqo must send an incomplete slice again, and the pause before that.
type resend struct {
	due   time.Time
	pause time.Duration
}

// ResendSlice makes a consumer's Liqo send a slice again if the slice stays incomplete: it has no
// certificate request, or it requests other resources than this cluster keeps for its placement.
// ResendSlice returns the delay after which it must be called again, 0 for a complete slice.
//
// Before Liqo's replicator sends an update, it changes its cached copy of this cluster's object. If
// the update fails, for example because the agent that checks it is restarting, the copy equals
// what the consumer wants, and Liqo does not try again. Every write to the object here replaces the
// copy, so an annotation is enough.
func (g *Guard) ResendSlice(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	slice, err := g.findIncompleteSlice(ctx, key)
	if err != nil {
		return 0, err
	}
	now := g.opts.Clock.Now()
	wait := g.noteIncomplete(key, slice != nil, now)
	if slice == nil || wait > 0 {
		return wait, nil
	}
	update := slice.DeepCopy()
	metav1.SetMetaDataAnnotation(&update.ObjectMeta, resendAnnotation, now.UTC().Format(time.RFC3339))
	if err := g.opts.Client.Update(ctx, update); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("annotating the incomplete ResourceSlice %q, so that the consumer's Liqo sends it again: %w", key, err)
	}
	g.opts.Log.Info("slice is incomplete, its consumer sends it again", "slice", key.Name, "namespace", key.Namespace)
	return g.postponeResend(key, now), nil
}

// findIncompleteSlice returns the slice if it is an incomplete replica for a placement that this cluster provides.
func (g *Guard) findIncompleteSlice(ctx context.Context, key types.NamespacedName) (*authv1beta1.ResourceSlice, error) {
	slice, inst := &authv1beta1.ResourceSlice{}, &agentv1alpha1.ProviderInstruction{}
	found, err := object.Get(ctx, g.opts.Client, key.Namespace, key.Name, slice)
	if err != nil || !found || slice.Spec.Class != object.SliceClass || !object.Replicated(slice) || slice.DeletionTimestamp != nil {
		return nil, err
	}
	found, err = object.Get(ctx, g.opts.Client, g.opts.InstructionNamespace, key.Name, inst)
	if err != nil || !found || inst.Ended() || !inst.Status.Enforced {
		return nil, err
	}
	if isComplete(slice, inst) {
		return nil, nil //nolint:nilnil // a complete slice is no error
	}
	return slice, nil
}

func isComplete(slice *authv1beta1.ResourceSlice, inst *agentv1alpha1.ProviderInstruction) bool {
	for name, kept := range inst.Kept() {
		if requested := slice.Spec.Resources[name]; requested.Cmp(kept) != 0 {
			return false
		}
	}
	return len(slice.Spec.CSR) > 0
}

// noteIncomplete returns how long an incomplete slice may still wait before it must be sent again.
// For a slice that is complete or gone it drops the entry and returns 0.
func (g *Guard) noteIncomplete(key types.NamespacedName, incomplete bool, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !incomplete {
		delete(g.resends, key)
		return 0
	}
	r, known := g.resends[key]
	if !known {
		r = resend{due: now.Add(resendPause), pause: resendPause}
		g.resends[key] = r
	}
	return max(0, r.due.Sub(now))
}

func (g *Guard) postponeResend(key types.NamespacedName, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	pause := min(2*g.resends[key].pause, longestResendPause)
	g.resends[key] = resend{due: now.Add(pause), pause: pause}
	return pause
}
