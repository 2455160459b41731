package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// TestBrokerRecoversFromARestoredEtcd restores the etcd of the broker's cluster from a snapshot. The snapshot
// contains one of two running reservations, and one that has been released since.
func TestBrokerRecoversFromARestoredEtcd(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	before, err := env.Available(ctx)
	check(t, err)
	providers := []string{"paris", "berlin"}

	known, _ := readyRequest(t, rome, "known", small())
	over, _ := readyRequest(t, rome, "over", small())
	snapshot := filepath.Join(t.TempDir(), "etcd")
	restoreEtcd(t, env, func(files string) error { return os.CopyFS(snapshot, os.DirFS(files)) })
	unknown, _ := readyRequest(t, rome, "unknown", small())
	check(t, rome.DeleteAndWait(ctx, over, patience))
	onKnown, onUnknown := run(t, env, rome, known), run(t, env, rome, unknown)

	// The providers are down, so that none announces its holdings.
	for _, id := range providers {
		env.Product.Process(id).Kill()
	}
	restoreEtcd(t, env, func(files string) error {
		return errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(snapshot)))
	})
	for _, id := range providers {
		awaitHoldings(t, env, id, true)
	}
	early, err := rome.Request(ctx, namespace, "early", small())
	check(t, err)
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		if err := rome.Get(ctx, client.ObjectKeyFromObject(early), early); err != nil {
			return "", err
		}
		if !strings.Contains(early.Status.Message, "to announce their holdings") {
			return fmt.Sprintf("the request to show why it waits, it is %s: %s", early.Status.Phase, early.Status.Message), nil
		}
		return "", nil
	}))
	if early.Status.ReservationName != "" {
		t.Errorf("%s was granted before its provider announced anything", early.Status.ReservationName)
	}

	for _, id := range providers {
		check(t, env.Product.Restart(ctx, id))
	}
	for _, id := range providers {
		awaitHoldings(t, env, id, false)
	}
	check(t, rome.AwaitReady(ctx, early, readyWithin))
	check(t, env.AwaitHeld(ctx, "rome", 3, patience))
	check(t, rome.AwaitReady(ctx, known, e2e.Once))
	check(t, rome.AwaitReady(ctx, unknown, e2e.Once))
	check(t, onKnown.Unchanged(ctx))
	check(t, onUnknown.Unchanged(ctx))

	check(t, rome.DeleteDeployments(ctx, namespace))
	for _, r := range []client.Object{known, unknown, early} {
		check(t, rome.DeleteAndWait(ctx, r, patience))
	}
	check(t, env.AwaitAvailable(ctx, before, patience))
}

// restoreEtcd stops everything in the broker's cluster, calls f with etcd's files, and starts everything again.
// Watches on a running API server would not notice that it went back.
func restoreEtcd(t *testing.T, env *Environment, f func(files string) error) {
	t.Helper()
	plane := env.Playground.Clusters[playground.BrokerCluster].ControlPlane
	var etcd *process.Process
	var others []*process.Process
	brokers := env.Product.Pods(playground.BrokerCluster)
	for _, p := range slices.Backward(plane.Processes().Processes()) {
		p.Kill()
		switch {
		case p.Name() == toolchain.Etcd.Name:
			etcd = p
		case p.Name() != toolchain.APIServer.Name && !isPod(p, brokers):
			others = append(others, p)
		}
	}
	check(t, f(filepath.Join(plane.Dir(), "etcd")))
	check(t, etcd.Start())
	check(t, plane.StartAPIServer(t.Context()))
	for _, p := range others {
		check(t, p.Start())
	}
	check(t, env.Product.Restart(t.Context(), playground.BrokerCluster))
}

func isPod(p *process.Process, pods []*release.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *release.Pod) bool { return pod.Process() == p })
}

// awaitHoldings waits until the broker shows that a cluster still has to announce its holdings. If want is
// false, it waits until the broker no longer shows this.
func awaitHoldings(t *testing.T, env *Environment, id string, want bool) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		adv, err := env.Advertisement(ctx, id)
		if err != nil {
			return "", err
		}
		awaited := slices.ContainsFunc(adv.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == brokerv1alpha1.ConditionFresh && c.Reason == brokerv1alpha1.ReasonAwaitingHoldings
		})
		if awaited != want {
			return fmt.Sprintf("%s to be awaited: %t; its conditions are %v", id, want, adv.Status.Conditions), nil
		}
		return "", nil
	}))
}
