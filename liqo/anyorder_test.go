package liqo

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

var orders = flag.Uint64("liqo.orders", 3, "orders that TestPlacementsComeAndGoInAnyOrder tries")

// placed is a placement that the broker gave to a consumer and a provider.
type placed struct {
	name, consumer, provider string
	ended                    bool
}

func (p *placed) String() string {
	return fmt.Sprintf("%s of %s at %s, ended: %t", p.name, p.consumer, p.provider, p.ended)
}

// Placements come and go in both directions. Agents hang, restart at any time and are killed
// after every kind of write. Messages are lost and identities deleted. Each standing placement
// must still get its node, and nothing may be left when all have ended.
func TestPlacementsComeAndGoInAnyOrder(t *testing.T) {
	for seed := range *orders {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for _, s := range w.sites {
					s.deaths = map[string]bool{}
				}
				comeAndGo(w, rand.New(rand.NewPCG(seed, 0)))
			})
		})
	}
}

func comeAndGo(w *world, random *rand.Rand) {
	w.t.Helper()
	all := []*placed{}
	for n := range 12 {
		switch what := random.IntN(10); {
		case what < 3 || len(all) == 0:
			p := &placed{name: fmt.Sprint("res-", n), consumer: "rome", provider: "paris"}
			if random.IntN(3) == 0 {
				p.consumer, p.provider = p.provider, p.consumer
			}
			w.reserve(p.consumer, p.provider, p.name)
			all = append(all, p)
		case what < 5:
			all[random.IntN(len(all))].ended = true
		case what == 5:
			w.restart([]string{"rome", "paris"}[random.IntN(2)])
		case what == 6:
			w.deleteIdentity(all[random.IntN(len(all))])
		case what < 9:
			s := w.sites[[]string{"rome", "paris"}[random.IntN(2)]]
			s.silent = !s.silent
		default:
			w.setLossy(random.IntN(2) == 0)
		}
		for range random.IntN(30) {
			w.carryOn(all)
		}
	}
	w.setLossy(false)
	w.sites["rome"].silent, w.sites["paris"].silent = false, false
	w.await("what stands has its node", all, func() bool {
		for _, p := range all {
			if !p.ended && !w.nodeReady(p.consumer, brokerv1alpha1.PlacementName(p.name, 1)) {
				return false
			}
		}
		return true
	})
	for _, p := range all {
		p.ended = true
	}
	w.await("all have ended", all, func() bool { return !w.anyInstruction() })
	w.wantEmpty()
}

func (w *world) await(what string, all []*placed, done func() bool) {
	w.t.Helper()
	for range int(2 * time.Minute / tick) {
		if w.carryOn(all); done() {
			return
		}
	}
	w.t.Errorf("not within 2 min: %s: %s", what, all)
}

// carryOn runs one tick. The broker tells both sides which placements have ended, and tells the
// provider when the consumer is done.
func (w *world) carryOn(all []*placed) {
	w.t.Helper()
	for _, p := range all {
		if !p.ended {
			continue
		}
		name, ctx := brokerv1alpha1.PlacementName(p.name, 1), w.t.Context()
		var c agentv1alpha1.ReservationInstruction
		stays := w.exists(p.consumer, "default", name, &c)
		if stays && !c.Spec.Release {
			c.Spec.Release = true
			w.check(w.sites[p.consumer].client.Update(ctx, &c))
		}
		if there := w.provides(p.provider, name); there != nil && (!there.Spec.Release || !stays && !there.Spec.Unpeer) {
			there.Spec.Release, there.Spec.Unpeer = true, !stays
			w.check(w.sites[p.provider].client.Update(ctx, there))
		}
	}
	w.tick()
}

func (w *world) deleteIdentity(p *placed) {
	w.t.Helper()
	w.delete(p.consumer, &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName(p.provider), Name: object.IdentityName(p.provider)}})
}

func (w *world) setLossy(lossy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lossy = lossy
}
