package local

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// TestKilledAtEveryStep checks that killing any process at any step does not change how a reservation ends. The use
// case (liveOnce) runs while each process is killed once at each of its steps.
func TestKilledAtEveryStep(t *testing.T) {
	tests := map[string]map[string][]failpoint.Point{
		"the consumer's agent": {"rome": failpoint.Consumer},
		"the provider's agent": {"paris": failpoint.Provider, "berlin": failpoint.Provider},
		"the broker":           {"broker": failpoint.Broker},
		"all of them": {
			"broker": failpoint.Broker, "rome": failpoint.Consumer, "paris": failpoint.Provider, "berlin": failpoint.Provider,
		},
	}
	for name, armed := range tests {
		t.Run(name, func(t *testing.T) {
			env := playgroundOf(t)
			// On a busy machine a killed agent may need longer than the default of 10 s until it runs again.
			configure(t, env, brokerv1alpha1.BrokerConfigSpec{Timeouts: &brokerv1alpha1.Timeouts{Acknowledgement: &metav1.Duration{Duration: time.Minute}}})
			// Both possible providers share a folder for markers, so each step kills once whichever is chosen.
			traces := t.TempDir()
			var points []failpoint.Point
			for process, its := range armed {
				points = append(points, its...)
				check(t, env.Product.Restart(t.Context(), process, failpoint.Arm(traces, its...)...))
			}
			// After a kill at one step, the process may not reach another step in the same run. So the use case runs up
			// to three times, until the process has been killed at every step.
			for range 3 {
				began, before := time.Now(), len(pending(t, traces, points))
				liveOnce(t, env)
				left := pending(t, traces, points)
				t.Logf("a life with %d kills: %.1f s", before-len(left), time.Since(began).Seconds())
				if len(left) == 0 {
					return
				}
			}
			t.Errorf("no process was killed at %q", pending(t, traces, points))
		})
	}
}

// patience is the timeout of one wait. It is long enough even if processes are killed at every step on a slow machine.
const patience = 4 * time.Minute

// liveOnce runs the use case once: it creates a request and a Reservation, uses their capacity and releases it.
func liveOnce(t *testing.T, env *Environment) {
	t.Helper()
	ctx, rome := t.Context(), env.Member("rome")
	before, err := env.Available(ctx)
	check(t, err)

	// No cluster can hold the first attempt of the request. The edit begins the next one.
	tooLarge := small()
	tooLarge[corev1.ResourceCPU] = resource.MustParse("1000")
	request, err := rome.Request(ctx, namespace, "survivor", tooLarge)
	check(t, err)
	check(t, rome.AwaitPhase(ctx, request, patience, agentv1alpha1.RequestFailed))
	editObject(t, rome, request, `{"spec":{"cpu":"500m"}}`)
	check(t, rome.AwaitReady(ctx, request, patience))
	for _, cpu := range []string{"700m", "300m"} {
		editObject(t, rome, request, `{"spec":{"cpu":"`+cpu+`"}}`)
		awaitChanged(t, rome, request, metav1.ConditionTrue)
	}
	byHand := reservation("survivor", "rome")
	check(t, env.Broker.Create(ctx, byHand))
	check(t, env.AwaitReservation(ctx, byHand, patience, brokerv1alpha1.ReservationActive))
	check(t, env.AwaitHeld(ctx, "rome", 2, patience))
	check(t, rome.AwaitReady(ctx, request, patience))

	check(t, rome.DeleteAndWait(ctx, request, patience))
	check(t, env.AwaitReservation(ctx, byHand, patience, brokerv1alpha1.ReservationActive))
	check(t, env.Broker.DeleteAndWait(ctx, byHand, patience))
	check(t, env.AwaitClean(ctx, patience))
	check(t, env.AwaitHeld(ctx, "rome", 0, patience))
	check(t, env.AwaitAvailable(ctx, before, patience))
}

// pending returns the points at which no process has been killed yet.
func pending(t *testing.T, traces string, points []failpoint.Point) []failpoint.Point {
	t.Helper()
	left := map[failpoint.Point]bool{}
	for _, p := range points {
		_, err := os.Stat(filepath.Join(traces, string(p)))
		if errors.Is(err, os.ErrNotExist) {
			left[p] = true
			continue
		}
		check(t, err)
	}
	return slices.Sorted(maps.Keys(left))
}
