package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestMailboxes starts one API server for all its subtests.
func TestMailboxes(t *testing.T) {
	c := startCluster(t)
	t.Run("conformance", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transporttest.Harness {
			s := c.newSite(t)
			s.serve(t)
			return transporttest.Harness{
				Broker: s.broker,
				Open:   func(t *testing.T, clusterID string) transport.Transport { return s.connect(t, clusterID) },
			}
		})
	})
	for name, test := range map[string]func(*testing.T, *site){
		"nothing is left behind":                                      nothingLeft,
		"a request waits for a broker that serves":                    waitsForServing,
		"a poll goes on at the next broker":                           pollGoesOn,
		"a call that is given up ends at the broker":                  givenUpAtBroker,
		"a cluster that is shut out is told so at once":               shutOut,
		"what was left over is deleted":                               leftOver,
		"a request that makes no sense is refused":                    nonsense,
		"an answer that does not fit is refused":                      tooLarge,
		"a cluster speaks through its own account alone":              ownAccount,
		"an account without rights is told what it may not":           withoutRights,
		"nobody answers but the broker, and nobody changes a request": ownAnswers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c.newSite(t))
		})
	}
}

const key = "0b2f7c1e-rome.1"

func request() *v1.ReservationRequest {
	return &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "4"}, DurationSeconds: 3600}
}

func nothingLeft(t *testing.T, s *site) {
	s.serve(t)
	rome := s.connect(t, "rome")
	began := time.Now()
	for range 20 {
		if _, err := rome.RequestReservation(t.Context(), key, request()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a call took %s on average", time.Since(began)/20)
	runtest.Check(t, rome.Close())
	if left := s.left(t, "rome"); len(left) > 0 {
		t.Errorf("%d mailboxes are left, such as %+v", len(left), left[0])
	}
}

func waitsForServing(t *testing.T, s *site) {
	s.serving.Store(false)
	s.serve(t)
	rome := s.connect(t, "rome")
	answered := make(chan error, 1)
	go func() {
		_, err := rome.RequestReservation(t.Context(), key, request())
		answered <- err
	}()
	runtest.Await(t, "the mailbox", func() bool { return len(s.left(t, "rome")) == 1 })
	if calls := s.broker.Calls(transporttest.RequestReservation); len(calls) > 0 {
		t.Errorf("a broker that does not serve was asked: %+v", calls)
	}
	s.serving.Store(true)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if calls := s.broker.Calls(transporttest.RequestReservation); len(calls) != 1 {
		t.Errorf("%d calls, want one", len(calls))
	}
}

func pollGoesOn(t *testing.T, s *site) {
	stop := s.serve(t)
	rome := s.connect(t, "rome")
	type result struct {
		list *v1.InstructionList
		err  error
	}
	polled := make(chan result, 1)
	go func() {
		list, err := rome.FetchInstructions(t.Context(), "", time.Minute)
		polled <- result{list, err}
	}()
	await(t, s, transporttest.FetchInstructions, 1)
	stop()
	s.serve(t)
	await(t, s, transporttest.FetchInstructions, 2)
	s.broker.Instruct("rome", v1.Instruction{Reservation: "res-0000000001", Placement: 1})
	if got := <-polled; got.err != nil || len(got.list.Instructions) != 1 {
		t.Errorf("poll over a restart = %+v, %v; want the instruction", got.list, got.err)
	}
}

func givenUpAtBroker(t *testing.T, s *site) {
	s.serve(t)
	rome := s.connect(t, "rome")
	ctx, giveUp := context.WithCancel(t.Context())
	polled := make(chan error, 1)
	go func() {
		_, err := rome.FetchInstructions(ctx, "", time.Minute)
		polled <- err
	}()
	await(t, s, transporttest.FetchInstructions, 1)
	giveUp()
	if err := <-polled; !errors.Is(err, context.Canceled) {
		t.Errorf("poll = %v; want it given up", err)
	}
	runtest.Await(t, "the mailbox to go", func() bool { return len(s.left(t, "rome")) == 0 })
}

func shutOut(t *testing.T, s *site) {
	s.serve(t)
	rome := s.connect(t, "rome")
	polled := make(chan error, 1)
	go func() {
		_, err := rome.FetchInstructions(t.Context(), "", time.Minute)
		polled <- err
	}()
	await(t, s, transporttest.FetchInstructions, 1)
	began := time.Now()
	s.gate.Set(access.PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"rome"}}))
	if err := <-polled; fault.ReasonOf(err) != fault.ClusterDenied || time.Since(began) > 50*time.Second { // the poll would wait for a minute
		t.Errorf("poll of a cluster that was shut out = %v after %s; want it denied at once", err, time.Since(began))
	}
	if _, err := rome.RequestReservation(t.Context(), key, request()); fault.ReasonOf(err) != fault.ClusterDenied {
		t.Errorf("request of a cluster that is shut out = %v; want it denied", err)
	}
	if _, err := s.connect(t, "paris").RequestReservation(t.Context(), key, request()); err != nil {
		t.Errorf("request of another cluster: %v", err)
	}
}

func leftOver(t *testing.T, s *site) {
	box := s.mailbox("rome", brokerv1alpha1.ClusterMailboxSpec{Method: "GET", Path: "/api/v1/ping"})
	runtest.Check(t, s.as(t, "rome").Create(t.Context(), box))
	s.clock = hours(1)
	s.serve(t)
	runtest.Await(t, "the mailbox to go", func() bool { return len(s.left(t, "rome")) == 0 })
	if calls := s.broker.Calls(transporttest.Ping); len(calls) > 0 {
		t.Error("a request was answered an hour after it was made")
	}
}

func nonsense(t *testing.T, s *site) {
	s.serve(t)
	for name, tc := range map[string]struct {
		spec brokerv1alpha1.ClusterMailboxSpec
		code int32
	}{
		"a path that nobody serves":  {brokerv1alpha1.ClusterMailboxSpec{Method: "GET", Path: "/api/v1/secrets"}, 404},
		"a method that is not there": {brokerv1alpha1.ClusterMailboxSpec{Method: "DELETE", Path: "/api/v1/ping"}, 405},
		"a path that is none":        {brokerv1alpha1.ClusterMailboxSpec{Method: "GET", Path: "/%zz"}, 400},
		"a body that is not packed":  {brokerv1alpha1.ClusterMailboxSpec{Method: "POST", Path: "/api/v1/advertisements", Body: "{}"}, 400},
		"a body that is missing":     {brokerv1alpha1.ClusterMailboxSpec{Method: "POST", Path: "/api/v1/advertisements"}, 400},
	} {
		box := s.mailbox("rome", tc.spec)
		if err := s.as(t, "rome").Create(t.Context(), box); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		runtest.Await(t, name, func() bool {
			runtest.Check(t, s.admin.Get(t.Context(), client.ObjectKeyFromObject(box), box))
			return box.Status.Code != 0
		})
		if box.Status.Code != tc.code {
			t.Errorf("%s: code %d, want %d", name, box.Status.Code, tc.code)
		}
	}
}

func tooLarge(t *testing.T, s *site) {
	s.serve(t)
	// Text without repetition cannot be compressed.
	var noise strings.Builder
	for i := range 90_000 {
		fmt.Fprintf(&noise, "%x", (uint64(i)+1)*0x9e3779b97f4a7c15)
	}
	much := fault.New(fault.Invalid, "%s", noise.String())
	for range 8 { // more attempts than any transport makes
		s.broker.Fail(transporttest.FetchInstructions, much)
	}
	// The transfer of this much text needs the longer timeout of a poll.
	_, err := s.connect(t, "rome").FetchInstructions(t.Context(), "", time.Minute)
	if !errors.Is(err, transport.ErrUnreachable) || !strings.Contains(err.Error(), "more than the") {
		t.Errorf("an answer that does not fit: %.300v; want it explained, and no refusal of what was asked", err)
	}
}

func ownAccount(t *testing.T, s *site) {
	ping := brokerv1alpha1.ClusterMailboxSpec{Method: "GET", Path: "/api/v1/ping"}
	if err := s.as(t, "rome").Create(t.Context(), s.mailbox("paris", ping)); !apierrors.IsForbidden(err) {
		t.Errorf("rome makes a mailbox of paris: %v; want it forbidden", err)
	}
	// The policy takes effect a moment after its creation.
	runtest.Await(t, "the policy", func() bool {
		err := s.admin.Create(t.Context(), s.mailbox("rome", ping))
		return err != nil && strings.Contains(err.Error(), "only ServiceAccount agent of its own namespace may create a ClusterMailbox")
	})
	if err := s.as(t, "rome").Create(t.Context(), s.mailbox("rome", ping)); err != nil {
		t.Errorf("rome makes a mailbox of its own: %v", err)
	}
	for _, verb := range []string{"list", "secrets"} {
		var err error
		if verb == "list" {
			err = s.as(t, "rome").List(t.Context(), &brokerv1alpha1.ClusterMailboxList{}, client.InNamespace(s.mailboxes("rome")))
		} else {
			err = s.as(t, "rome").List(t.Context(), &brokerv1alpha1.ReservationList{})
		}
		if !apierrors.IsForbidden(err) {
			t.Errorf("an agent may %s: %v; want it forbidden", verb, err)
		}
	}
}

func withoutRights(t *testing.T, s *site) {
	runtest.Check(t, s.admin.DeleteAllOf(t.Context(), roleBinding(), client.InNamespace(s.mailboxes("rome"))))
	rome := s.connect(t, "rome")
	runtest.Await(t, "the rights to be gone", func() bool {
		_, err := rome.Ping(t.Context())
		return errors.Is(err, transport.ErrUnreachable) && err != nil && strings.Contains(err.Error(), "forbidden") &&
			strings.Contains(err.Error(), s.mailboxes("rome"))
	})
}

func ownAnswers(t *testing.T, s *site) {
	box := s.mailbox("rome", brokerv1alpha1.ClusterMailboxSpec{Method: "GET", Path: "/api/v1/ping"})
	runtest.Check(t, s.as(t, "rome").Create(t.Context(), box))
	answer := func(c client.Client) error {
		answered := box.DeepCopy()
		answered.Status.Code = 200
		return c.Status().Patch(t.Context(), answered, client.MergeFrom(box))
	}
	if err := answer(s.as(t, "rome")); !apierrors.IsForbidden(err) {
		t.Errorf("an agent answers itself: %v; want it forbidden", err)
	}
	runtest.Await(t, "the policy", func() bool {
		err := answer(s.admin)
		return err != nil && strings.Contains(err.Error(), "only the broker may answer a ClusterMailbox")
	})
	changed := box.DeepCopy()
	changed.Spec.Path = "/api/v1/instructions"
	if err := s.admin.Patch(t.Context(), changed, client.MergeFrom(box)); !apierrors.IsInvalid(err) {
		t.Errorf("a request is changed: %v; want it refused", err)
	}
}

func await(t *testing.T, s *site, operation transporttest.Operation, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	runtest.Check(t, s.broker.AwaitCalls(ctx, operation, n))
}
