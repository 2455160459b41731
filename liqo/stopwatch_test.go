package liqo

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func TestStopwatchMeasuresStepsThatGoOn(t *testing.T) {
	type measured struct {
		Step plan.HandshakeStep
		Took time.Duration
	}
	tests := map[string]struct {
		// steps are recorded one after the other, one second apart.
		steps []plan.HandshakeStep
		want  []measured
	}{
		"a whole handshake": {
			steps: []plan.HandshakeStep{plan.AwaitChallenge, plan.AwaitChallenge, plan.AwaitCredentials, plan.AwaitIdentity, plan.HandshakeDone, plan.HandshakeDone},
			want:  []measured{{plan.AwaitChallenge, 2 * time.Second}, {plan.AwaitCredentials, time.Second}, {plan.AwaitIdentity, time.Second}},
		},
		"a handshake that starts again": {
			steps: []plan.HandshakeStep{plan.AwaitCredentials, plan.AwaitChallenge, plan.AwaitCredentials},
			want:  []measured{{plan.AwaitChallenge, time.Second}},
		},
		"an ended placement between": {
			steps: []plan.HandshakeStep{plan.AwaitAnswer, plan.NoStep, plan.AwaitCertificate},
			want:  []measured{{plan.AwaitAnswer, 2 * time.Second}},
		},
		"a pair that was peered before": {steps: []plan.HandshakeStep{plan.HandshakeDone, plan.HandshakeDone}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []measured
			w := newStopwatch(func(step plan.HandshakeStep, took time.Duration) { got = append(got, measured{step, took}) })
			pair := handshake.Pair{Consumer: "rome", Provider: "paris"}
			for i, step := range test.steps {
				w.noteStep(pair, step, time.Unix(int64(i), 0))
				w.noteStep(handshake.Pair{Consumer: "rome", Provider: "oslo"}, plan.AwaitChallenge, time.Unix(int64(i), 0))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("measured steps (-want +got):\n%s", diff)
			}
			w.forgetPair(pair)
			if w.noteStep(pair, plan.HandshakeDone, time.Unix(100, 0)); len(got) != len(test.want) {
				t.Errorf("a forgotten pair was measured: %v", got[len(test.want):])
			}
		})
	}
}

func TestEachStepOfAHandshakeIsMeasuredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		measured := map[string][]plan.HandshakeStep{}
		for _, id := range []string{"rome", "paris"} {
			w.sites[id].peering.steps.observe = func(step plan.HandshakeStep, took time.Duration) {
				if took < 0 || took > time.Hour {
					t.Errorf("step %s of %s took %v", step, id, took)
				}
				measured[id] = append(measured[id], step)
			}
		}
		w.reserve("rome", "paris", "res-a")
		w.until("the first node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		w.reserve("rome", "paris", "res-b")
		w.until("the second node is ready", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
		w.release("rome", "paris", "res-a", nil)
		w.release("rome", "paris", "res-b", nil)
		want := map[string][]plan.HandshakeStep{
			"rome":  {plan.AwaitChallenge, plan.AwaitCredentials, plan.AwaitIdentity},
			"paris": {plan.AwaitAnswer, plan.AwaitCertificate},
		}
		if diff := cmp.Diff(want, measured); diff != "" {
			t.Errorf("measured steps (-want +got):\n%s", diff)
		}
		for id, s := range w.sites {
			if n := len(s.peering.steps.steps); n != 0 {
				t.Errorf("%s remembers %d handshakes after everything has ended", id, n)
			}
		}
	})
}
