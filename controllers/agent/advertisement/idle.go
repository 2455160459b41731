package advertisement

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// vacancies measures for how long virtual nodes have had no pods. It is kept in memory only, so after a
// restart the times begin anew.
type vacancies struct {
	// wanted is true if the broker asked for the list with its last receipt.
	wanted bool
	// since holds the vacancy of each virtual node that had no pods when the last list was made, by name.
	since map[string]vacancy
}

// vacancy holds the time since which a node has had no pods, and how many pods had come to it until then (came).
type vacancy struct {
	since time.Time
	came  uint64
}

// listVacancies returns the placements of this cluster whose virtual node is Ready and has no pods. It
// returns nil unless the broker has asked for them.
func (r *Reconciler) listVacancies(ctx context.Context) []v1.Vacancy {
	before := r.vacancies.since
	r.vacancies.since = nil
	if !r.vacancies.wanted {
		return nil
	}
	var list agentv1alpha1.ReservationInstructionList
	if err := r.client.List(ctx, &list, client.InNamespace(r.options.InstructionNamespace)); err != nil {
		log.FromContext(ctx).Error(err, "listing reservation instructions failed: idle reservations are not reported")
		return nil
	}
	now := r.options.Clock.Now()
	r.vacancies.since = map[string]vacancy{}
	var out []v1.Vacancy
	for i := range list.Items {
		inst := &list.Items[i]
		if len(out) == maxUsage || inst.Ended() || !meta.IsStatusConditionTrue(inst.Status.Conditions, agentv1alpha1.ConditionNodeReady) {
			continue
		}
		guests, known := r.accounts.GuestsOn(inst.Name)
		if !known || guests.Now > 0 {
			continue
		}
		v, was := before[inst.Name]
		if !was || v.came != guests.Came {
			v = vacancy{since: now, came: guests.Came}
		}
		r.vacancies.since[inst.Name] = v
		out = append(out, v1.Vacancy{Reservation: inst.Spec.ReservationName, Placement: inst.Spec.Placement, Seconds: now.Sub(v.since).Seconds()})
	}
	return out
}
