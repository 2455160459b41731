package reservationinstruction

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// gate is a peering that only closes and opens a virtual node.
type gate struct {
	peering
	empty  bool
	closed int
	opened int
}

func (g *gate) CloseNode(context.Context, *agentv1alpha1.ReservationInstruction) (bool, time.Duration, error) {
	g.closed++
	return g.empty, time.Second, nil
}

func (g *gate) ReopenNode(context.Context, *agentv1alpha1.ReservationInstruction) error {
	g.opened++
	return nil
}

// newIdle returns an instruction whose reservation is released at an instant.
func newIdle(releaseAt time.Time) *agentv1alpha1.ReservationInstruction {
	inst := newInstruction()
	inst.Spec.Idle = &agentv1alpha1.IdleTime{Since: metav1.NewTime(releaseAt.Add(-time.Hour)), ReleaseAt: &metav1.Time{Time: releaseAt}}
	return inst
}

func TestNodeIsClosedOnlyAroundTheAnnouncedRelease(t *testing.T) {
	at := time.Unix(1000, 0)
	tests := map[string]struct {
		change func(*agentv1alpha1.ReservationInstruction)
		now    time.Time
		closes bool
		again  time.Duration
	}{
		"not idle":            {change: func(i *agentv1alpha1.ReservationInstruction) { i.Spec.Idle = nil }, now: at},
		"only told":           {change: func(i *agentv1alpha1.ReservationInstruction) { i.Spec.Idle.ReleaseAt = nil }, now: at},
		"before the release":  {now: at.Add(-time.Minute), again: time.Minute},
		"at the release":      {now: at, closes: true, again: time.Second},
		"just before its end": {now: at.Add(vacateWindow - time.Millisecond), closes: true, again: time.Millisecond},
		"long after it":       {now: at.Add(vacateWindow)},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inst := newIdle(at)
			if c.change != nil {
				c.change(inst)
			}
			g := &gate{}
			r := newReconciler(t, &broker{}, inst)
			r.peering = g
			again, err := r.vacateNode(t.Context(), inst, c.now)
			if err != nil || (g.closed == 1) != c.closes || (g.opened == 1) == c.closes || again != c.again {
				t.Errorf("closed %d times, opened %d times, again after %s, %v; want closed: %t, again after %s", g.closed, g.opened, again, err, c.closes, c.again)
			}
		})
	}
}

func TestVacantNodeIsReportedOnce(t *testing.T) { synctest.Test(t, testVacantNodeReport) }

func testVacantNodeReport(t *testing.T) {
	inst := newIdle(time.Unix(1000, 0))
	b := &broker{err: fault.New(fault.Conflict, "it is used")}
	r := newReconciler(t, b, inst)
	g := &gate{}
	r.peering = g
	vacate := func(now time.Time) {
		t.Helper()
		if _, err := r.vacateNode(t.Context(), inst, now); err != nil {
			t.Fatal(err)
		}
	}
	vacate(time.Unix(1001, 0)) // a pod is left
	g.empty = true
	vacate(time.Unix(1011, 0))
	want := v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateVacant, Reason: agentv1alpha1.ReasonIdle}
	if diff := cmp.Diff(want, <-b.told); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	vacate(time.Unix(1021, 0))
	select {
	case again := <-b.told:
		t.Errorf("reported again: %+v", again)
	case <-time.After(time.Hour):
	}
}

func TestEndedPlacementIsNotVacated(t *testing.T) {
	inst := newIdle(time.Unix(1000, 0))
	inst.Spec.Release = true
	r := newReconciler(t, &broker{}, inst)
	g := &gate{}
	r.peering = g
	if again, err := r.vacateNode(t.Context(), inst, time.Unix(1000, 0)); again != never || err != nil || g.closed+g.opened != 0 {
		t.Errorf("again after %s, %v; closed %d, opened %d", again, err, g.closed, g.opened)
	}
}
