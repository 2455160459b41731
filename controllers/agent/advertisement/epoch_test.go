package advertisement

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// numbering orders advertisements as the broker does.
type numbering struct {
	*transporttest.Direct
	epoch int64
}

func (n *numbering) PublishAdvertisement(ctx context.Context, adv *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	switch {
	case adv.Epoch == 0:
		n.epoch++
	case adv.Epoch < n.epoch:
		return nil, fault.New(fault.Conflict, "epoch %d is in force", n.epoch)
	default:
		n.epoch = adv.Epoch
	}
	if _, err := n.Direct.PublishAdvertisement(ctx, adv); err != nil {
		return nil, err
	}
	return &v1.AdvertisementReceipt{Epoch: n.epoch}, nil
}

func TestAgentKeepsEpochOfItsFirstReceipt(t *testing.T) {
	b := newBench(t)
	broker := &numbering{Direct: b.broker, epoch: 6}
	b.publisher = broker
	b.after(0)
	b.after(interval)
	if sent := b.broker.Advertised(); sent[0].Epoch != 0 || sent[1].Epoch != 7 {
		t.Errorf("sent epochs %d and %d, want 0 and 7", sent[0].Epoch, sent[1].Epoch)
	}
	broker.epoch = 0 // the broker has restarted
	b.after(interval)
	if broker.epoch != 7 {
		t.Errorf("the restarted broker has epoch %d, want 7", broker.epoch)
	}
}

// A standby with an earlier clock, or a clock that steps back, must not silence the cluster.
func TestOvertakenAgentRequestsNewEpoch(t *testing.T) {
	b := newBench(t)
	broker := &numbering{Direct: b.broker}
	b.publisher = broker
	b.after(0)
	broker.epoch = 5 // other agents took over meanwhile
	if again := b.after(interval); again != firstRetry {
		t.Errorf("asks again in %s, want %s", again, firstRetry)
	}
	adv := b.advertisement()
	ready := meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionReady)
	if adv.Status.Published || ready.Reason != agentv1alpha1.ReasonRefused || !strings.Contains(ready.Message, "two agents run for this cluster") {
		t.Errorf("published %v, condition %+v; want a refusal that names the cause", adv.Status.Published, ready)
	}
	b.after(firstRetry)
	if !b.advertisement().Status.Published || broker.epoch != 6 {
		t.Errorf("published %v with epoch %d, want true with 6", b.advertisement().Status.Published, broker.epoch)
	}
}
