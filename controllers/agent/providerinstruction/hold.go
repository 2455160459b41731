package providerinstruction

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placeholder"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// holds stores, for each placement, the aspect of the condition Held: whether placeholder pods
// keep its capacity free. The placeholder controller writes it; the instruction controller, which
// alone writes conditions, reads it.
type holds struct {
	// mu protects known.
	mu    sync.Mutex
	known map[string]placement.Aspect
}

func (h *holds) replaceAll(now map[string]placement.Aspect) (changed []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, aspect := range now {
		if h.known[name] != aspect {
			changed = append(changed, name)
		}
	}
	h.known = now
	return changed
}

func (h *holds) aspectOf(name string) (placement.Aspect, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, ok := h.known[name]
	return a, ok
}

// holdAspect returns the condition Held: whether placeholders keep the unused capacity of a
// placement. A pending placeholder counts as missing even if it was just created; the condition
// changes once the placeholder is scheduled.
func holdAspect(h placeholder.Held) placement.Aspect {
	if h.Pending == 0 {
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonHeld, Message: fmt.Sprintf("%d placeholder pods hold the unused capacity", h.Placeholders)}
	}
	var short []string
	for _, name := range h.Short.Names() {
		if h.Short[name] > 0 {
			short = append(short, fmt.Sprintf("%s of %s", quantity.Format(name, h.Short[name]), name))
		}
	}
	return placement.Aspect{Reason: agentv1alpha1.ReasonHoldIncomplete, Message: fmt.Sprintf(
		"%d of %d placeholder pods do not fit: %s of the reserved capacity is used by this cluster's own pods, or not free on a single node",
		h.Pending, h.Placeholders, strings.Join(short, " and "))}
}

// describeHold sets the condition Held only while placeholders must keep the capacity.
func (r *Reconciler) describeHold(inst *agentv1alpha1.ProviderInstruction) {
	aspect, known := r.holds.aspectOf(inst.Name)
	if !known || !needsPlaceholders(inst) || inst.AwaitsNewNodes() {
		meta.RemoveStatusCondition(&inst.Status.Conditions, agentv1alpha1.ConditionHeld)
		return
	}
	setCondition(inst, agentv1alpha1.ConditionHeld, aspect, r.now())
}

func needsPlaceholders(inst *agentv1alpha1.ProviderInstruction) bool {
	return inst.Spec.Hold == agentv1alpha1.HoldPlaceholder && inst.IsCounted() && !inst.Ended()
}

func (r *Reconciler) enqueueAll(names []string) {
	for _, name := range names {
		r.queue.Add(name)
	}
}
