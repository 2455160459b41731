package advertisement

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// narrow is a broker that accepts at most a given number of node shapes.
type narrow struct {
	*transporttest.Direct
	most, refused int
}

func (n *narrow) PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	if len(adv.NodeShapes) > n.most {
		n.refused++
		return nil, fault.New(fault.TooLarge, "advertisement takes 90000 bytes of the journal, and 65536 fit")
	}
	return n.Direct.PublishAdvertisement(ctx, adv)
}

func shapesOf(n int) []quantity.NodeShape {
	var out []quantity.NodeShape
	for i := range n {
		out = append(out, quantity.NodeShape{Count: 1, Free: quantity.Amounts{"cpu": int64(1000 * (n - i))}})
	}
	return out
}

func (b *bench) condition(kind string) *metav1.Condition {
	b.Helper()
	c := meta.FindStatusCondition(b.advertisement().Status.Conditions, kind)
	if c == nil {
		b.Fatalf("no condition %s", kind)
	}
	return c
}

func (b *bench) newest() *v1.Advertisement {
	b.Helper()
	all := b.broker.Advertised()
	if len(all) == 0 {
		b.Fatal("nothing was advertised")
	}
	return all[len(all)-1]
}

func TestTooLargeAdvertisementIsShortenedAtOnce(t *testing.T) {
	b := newBench(t)
	b.figures.now.NodeShapes = shapesOf(100)
	broker := &narrow{Direct: b.broker, most: 30}
	b.publisher = broker
	b.after(0)
	if got := b.newest().NodeShapes; len(got) != 25 || got[0].Free["cpu"] != "100" {
		t.Errorf("%d shapes are shown, the first with %s free; want the 25 with most", len(got), got[0].Free["cpu"])
	}
	if c := b.condition(agentv1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		t.Errorf("the cluster is silent: %+v", c)
	}
	c := b.condition(agentv1alpha1.ConditionComplete)
	if c.Reason != agentv1alpha1.ReasonShortened || !strings.Contains(c.Message, "the 25 node shapes with most free capacity are published") || !strings.Contains(c.Message, "90000 bytes") {
		t.Errorf("condition %+v", c)
	}

	refused := broker.refused
	b.after(interval)
	if broker.refused != refused {
		t.Error("it is tried in full with every interval")
	}
	b.after(fullerAfter)
	if broker.refused != refused+1 || len(b.newest().NodeShapes) != 25 {
		t.Errorf("after a while %d more refusals and %d shapes, want one more and 25", broker.refused-refused, len(b.newest().NodeShapes))
	}
	broker.most = 1000
	for range 3 {
		b.after(fullerAfter)
	}
	if got := len(b.newest().NodeShapes); got != 100 {
		t.Errorf("%d shapes are shown once the broker takes them, want 100", got)
	}
	if c := b.condition(agentv1alpha1.ConditionComplete); c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
}

func TestRefusalThatFewerShapesDoNotFixIsReported(t *testing.T) {
	b := newBench(t)
	b.figures.now.NodeShapes = shapesOf(100)
	b.publisher = &narrow{Direct: b.broker, most: 0}
	b.after(0)
	if c := b.condition(agentv1alpha1.ConditionReady); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "65536 fit") {
		t.Errorf("condition %+v", c)
	}
}

func TestBoundedUsageKeepsWhatMattersMost(t *testing.T) {
	usage := func(n int, recalled bool) v1.Usage {
		u := v1.Usage{Reservation: fmt.Sprintf("res-%010d", n), Placement: 1, Used: v1.Amounts{"cpu": "1"}}
		if recalled {
			u.Recall = &v1.Recall{}
		}
		return u
	}
	all := []v1.Usage{usage(1, false), usage(2, false), usage(3, true), usage(4, false), usage(5, true)}
	beyond := func(u *v1.Usage) bool { return u.Reservation == all[3].Reservation }
	tests := map[string]struct {
		most, mostBytes int
		want            []v1.Usage
	}{
		"all that fit":                         {5, 10000, all},
		"those called back before all others":  {2, 10000, []v1.Usage{all[2], all[4]}},
		"then those beyond what is kept":       {3, 10000, []v1.Usage{all[2], all[3], all[4]}},
		"then the first ones":                  {4, 10000, []v1.Usage{all[0], all[2], all[3], all[4]}},
		"no more bytes than there is room for": {5, 200, []v1.Usage{all[2], all[4]}},
		"none":                                 {5, 10, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := boundUsage(all, beyond, test.most, test.mostBytes)
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
	c := completeCondition(&bound{usage: 7})
	if c.Reason != agentv1alpha1.ReasonShortened || !strings.Contains(c.Message, "the usage of 7 placements is not published") {
		t.Errorf("condition %+v", c)
	}
}

func TestMissingWebhookIsReportedOnce(t *testing.T) {
	b := newBench(t)
	b.options.Guarded = func(context.Context) *metav1.Condition {
		return &metav1.Condition{Type: agentv1alpha1.ConditionGuarded, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonWebhookDisabled, Message: "set webhook.enabled=true"}
	}
	for range 3 {
		b.after(interval)
	}
	var told []string
	for len(b.events.Events) > 0 {
		told = append(told, <-b.events.Events)
	}
	if n := strings.Count(strings.Join(told, "\n"), "Warning WebhookDisabled set webhook.enabled=true"); n != 1 {
		t.Errorf("events %q, want it told once", told)
	}
	if c := b.condition(agentv1alpha1.ConditionGuarded); c.Reason != agentv1alpha1.ReasonWebhookDisabled {
		t.Errorf("condition %+v", c)
	}
	b.options.Guarded = func(context.Context) *metav1.Condition { return nil }
	b.after(interval)
	if c := meta.FindStatusCondition(b.advertisement().Status.Conditions, agentv1alpha1.ConditionGuarded); c != nil {
		t.Errorf("condition %+v of a cluster that does not peer", c)
	}
}
