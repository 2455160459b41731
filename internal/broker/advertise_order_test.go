package broker

import (
	"context"
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// advertiseAs publishes an advertisement of paris with an epoch and a sequence number of its agent,
// and returns the epoch in the receipt.
func (f *fleet) advertiseAs(epoch, sequence int64) (int64, error) {
	amounts := v1.Amounts{"cpu": "8", "memory": "16Gi"}
	receipt, err := f.PublishAdvertisement(context.Background(), "paris", &v1.Advertisement{
		ClusterID: "paris", Epoch: epoch, Sequence: sequence, EndpointURL: endpointOf("paris"),
		Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{},
	})
	if err != nil {
		return 0, err
	}
	return receipt.Epoch, nil
}

// The broker cannot trust the clock of an agent. If several agents of a cluster run, the broker
// accepts advertisements only of the one that got its epoch last.
func TestLatestAgentIsInForce(t *testing.T) {
	inFleet(t, func(f *fleet) {
		steps := []struct {
			what            string
			epoch, sequence int64
			want            int64
		}{
			{"the first agent asks for an epoch", 0, 1, 1},
			{"it goes on", 1, 2, 1},
			{"its request is delivered twice", 1, 2, 1},
			{"an older request arrives late", 1, 1, 0},
			{"a standby takes over", 0, 1, 2},
			{"the first agent has not noticed", 1, 3, 0},
			{"the standby goes on", 2, 2, 2},
			{"the first agent asks for an epoch and is back", 0, 4, 3},
		}
		for _, step := range steps {
			got, err := f.advertiseAs(step.epoch, step.sequence)
			if got != step.want || (step.want == 0) != (fault.ReasonOf(err) == fault.Conflict) {
				t.Errorf("%s: epoch %d, %v; want epoch %d (0: a conflict)", step.what, got, err, step.want)
			}
		}
	})
}

func TestAfterARestartTheBrokerTakesTheEpochsThatAgentsHave(t *testing.T) {
	inFleet(t, func(f *fleet) {
		for want := int64(1); want <= 3; want++ {
			if got, err := f.advertiseAs(0, 1); got != want || err != nil {
				t.Fatalf("epoch %d, %v; want %d", got, err, want)
			}
		}
		f.kill()
		time.Sleep(advertiseEvery)
		if got, err := f.advertiseAs(3, 2); got != 3 || err != nil {
			t.Errorf("epoch %d, %v; want 3", got, err)
		}
	})
}

// A cluster stays fresh if its agents replace each other so often that each advertises only once.
func TestTakeoversKeepAClusterFresh(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("berlin", "1", "1Gi")
		for range 10 {
			time.Sleep(advertiseEvery)
			if _, err := f.advertiseAs(0, 1); err != nil {
				t.Fatal(err)
			}
		}
		if r := f.reserve("rome", "request-1", request("4", "4Gi")); target(r) != "paris" {
			t.Errorf("reserved at %s, want paris", target(r))
		}
	})
}
