package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// If a provider misses three advertisements, the requesters with reservations there are informed
// until it advertises again. A restarted broker informs them as well. All holds stay unchanged.
func TestRequestersOfASilentProviderAreNotified(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.held()
		heard, cursor := time.Now(), f.poll("rome", "").Cursor
		silent := func() *float64 { return f.told("rome", r, v1.InstructionRoleConsumer).ProviderSilentSeconds }
		shown := func() time.Time {
			view, err := f.Reservation(context.Background(), r.Name)
			runtest.Check(t, err)
			return view.LostSince
		}
		time.Sleep(staleAfter - time.Second)
		synctest.Wait()
		if got := silent(); got != nil || !shown().IsZero() {
			t.Errorf("told that it is silent for %v s before it is stale", *got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for range 2 {
			if got := silent(); got == nil || *got < staleAfter.Seconds() || !shown().Equal(heard) {
				t.Errorf("told that it is silent for %v s, since %s; it was heard at %s", got, shown(), heard)
			}
			f.kill()
		}
		if list := f.poll("rome", cursor); len(list.Instructions) != 1 {
			t.Errorf("who polls is told %+v", list.Instructions)
		}
		f.advertise("paris", "16", "64Gi")
		if got := silent(); got != nil || !shown().IsZero() {
			t.Errorf("told that it is silent for %v s after it was heard", *got)
		}
		if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseActive || f.available("paris") != "12 56Gi" {
			t.Errorf("%s, and %s is left", got.Phase, f.available("paris"))
		}
	})
}

// A requester with a reservation at a provider without an agent is told so, until the provider has
// an agent.
func TestRequestersOfAnUnattendedProviderAreNotified(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.offerByHand("paris", 16, 64)
		r := f.reserve("rome", "key", asked("4"))
		cursor := f.poll("rome", "").Cursor
		if in := f.told("rome", r, v1.InstructionRoleConsumer); !in.Unattended || in.ProviderID != "paris" {
			t.Errorf("told %+v, want that nobody attends to paris", in)
		}
		f.advertise("paris", "16", "64Gi")
		if list := f.poll("rome", cursor); len(list.Instructions) != 1 || list.Instructions[0].Unattended {
			t.Errorf("who polls is told %+v, want that an agent attends to paris", list.Instructions)
		}
	})
}

func TestPingTellsHowOldTheCallersAdvertisementIs(t *testing.T) {
	inFleet(t, func(f *fleet) {
		age := func(id string) *float64 {
			pong, err := f.Ping(context.Background(), id)
			runtest.Check(t, err)
			return pong.AdvertisedSecondsAgo
		}
		f.offerByHand("oslo", 16, 64)
		if got := age("rome"); got != nil || age("oslo") != nil {
			t.Errorf("before the first advertisement it is %v s old", *got)
		}
		f.advertise("rome", "4", "8Gi")
		time.Sleep(96 * time.Second)
		if got := age("rome"); got == nil || *got != 96 {
			t.Errorf("after 96 s it is %v s old", got)
		}
	})
}

// No agent renews a ClusterAdvertisement that an administrator applied, so it does not expire.
func TestManifestIsOfferedUntilItIsDeleted(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.offerByHand("oslo", 16, 64)
		time.Sleep(30 * 24 * time.Hour)
		synctest.Wait()
		if view, err := f.Cluster(context.Background(), "oslo"); err != nil || view.Phase != term.Active {
			t.Errorf("a month after its last edit: %+v, %v", view, err)
		}
		f.advertise("rome", "4", "8Gi")
		if got := target(f.reserve("rome", "request-1", request("4", "1Gi"))); got != "oslo" {
			t.Errorf("granted on %s", got)
		}
		f.kill()
		f.advertise("rome", "4", "8Gi")
		f.reserve("rome", "request-2", request("4", "1Gi"))
	})
}

// The book keeps clusters that no longer offer anything, because reservations name them.
func TestClusterWithoutOfferIsNoCandidate(t *testing.T) {
	inFleet(t, func(f *fleet) {
		candidates := func() []string {
			_, err := f.RequestReservation(context.Background(), "rome", fmt.Sprint("refused-", time.Now().UnixNano()), request("99", "1Gi"))
			refusal, ok := errors.AsType[*fault.Error](err)
			if !ok {
				t.Fatalf("99 cores are requested: %v", err)
			}
			var ids []string
			for _, c := range refusal.Candidates {
				ids = append(ids, c.ClusterID)
			}
			return ids
		}
		want := func(when string, ids ...string) {
			t.Helper()
			if diff := cmp.Diff(ids, candidates()); diff != "" {
				t.Errorf("candidates %s (-want +got):\n%s", when, diff)
			}
		}
		f.offerByHand("oslo", 4, 8)
		f.advertise("berlin", "4", "8Gi")
		want("at first", "berlin", "oslo")
		r := f.reserve("rome", "request-1", func() *v1.ReservationRequest {
			q := request("1", "1Gi")
			q.TargetClusterID = "oslo"
			return q
		}())
		runtest.Check(t, f.WithdrawManifest(context.Background(), "oslo", ""))
		want("after oslo's ClusterAdvertisement was deleted", "berlin")
		f.wantPhases("Reserved oslo", r)
		f.kill()
		f.advertise("berlin", "4", "8Gi")
		want("after a restart", "berlin")
		f.release("rome", r.Name)
		want("after oslo's last reservation", "berlin")
		f.offerByHand("oslo", 5, 8)
		want("after oslo's ClusterAdvertisement was created again", "berlin", "oslo")

		time.Sleep(settings.Default().StaleThreshold)
		synctest.Wait()
		runtest.Check(t, f.ForgetCluster(context.Background(), "berlin"))
		want("after berlin was forgotten", "oslo")
	})
}
