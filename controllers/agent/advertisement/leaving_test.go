package advertisement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestUninstallationIsAnnounced checks that the annotation of agent uninstall is sent to the broker at once. The
// condition Leaving is true only after that. An annotation that is removed or outdated has no effect.
func TestUninstallationIsAnnounced(t *testing.T) {
	b := newBench(t)
	b.after(0)
	away := fault.New(fault.Unavailable, "the broker is away")
	type shown struct{ Leaving, Told string }
	for _, step := range []struct {
		name string
		// lasts is how long the annotation is valid from now on; 0 removes it.
		lasts, after time.Duration
		trouble      error
		want         shown
	}{
		{"nothing is announced", 0, time.Second, nil, shown{}},
		{"the broker cannot be told", 2 * time.Minute, time.Second, away, shown{"False", "Uninstalling"}},
		{"the broker is told", 2 * time.Minute, 2 * time.Second, nil, shown{"True", "Uninstalling"}},
		{"it stays so", 2 * time.Minute, interval, nil, shown{"True", "Uninstalling"}},
		{"it is revoked", 0, time.Second, nil, shown{}},
		{"it is announced again", interval, time.Second, nil, shown{"True", "Uninstalling"}},
		{"it is outdated", -time.Second, interval, nil, shown{}},
	} {
		adv := b.advertisement()
		adv.Annotations = nil
		if step.lasts != 0 {
			until := b.clock.Now().Add(step.after + step.lasts).Format(time.RFC3339)
			adv.Annotations = map[string]string{agentv1alpha1.LeavingUntilAnnotation: until}
		}
		runtest.Check(t, b.client.Update(t.Context(), adv))
		if step.trouble != nil {
			b.broker.Fail(transporttest.PublishAdvertisement, step.trouble)
		}
		b.after(step.after)
		var got shown
		if c := meta.FindStatusCondition(b.advertisement().Status.Conditions, agentv1alpha1.ConditionLeaving); c != nil {
			got.Leaving = string(c.Status)
		}
		all := b.broker.Advertised()
		got.Told = all[len(all)-1].Lending.Unready
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}
