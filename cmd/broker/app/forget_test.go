package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// TestForgottenClusterLeavesNothingBehind kills the broker at every point of the removal. The
// reservation on the lost provider fails, that of the lost consumer ends, and nothing waits.
func TestForgottenClusterLeavesNothingBehind(t *testing.T) {
	s := newSite(t, 0)
	killed := t.TempDir()
	s.env = failpoint.Arm(killed, failpoint.Forgetting...)
	s.replicas = append(s.replicas, s.startReplica("broker-0"))
	url := s.replicas[0].url
	rome, berlin := s.connect("rome", url), s.connect("berlin", url)
	s.offer(rome, "rome", "8", 1)
	s.offer(berlin, "berlin", "8", 1)

	var lent, used *v1.Reservation
	s.persist("reserve on berlin", func(ctx context.Context) (err error) {
		lent, err = rome.RequestReservation(ctx, "request-of-rome", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "2", "memory": "1Gi"}, TargetClusterID: "berlin"})
		return err
	})
	s.persist("reserve for berlin", func(ctx context.Context) (err error) {
		used, err = berlin.RequestReservation(ctx, "request-of-berlin", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "2", "memory": "1Gi"}})
		return err
	})
	for name, c := range map[string]interface {
		ReportStatus(context.Context, string, *v1.StatusReport) error
	}{lent.Name: berlin, used.Name: rome} {
		s.persist("acknowledge "+name, func(ctx context.Context) error {
			return c.ReportStatus(ctx, name, &v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateAcknowledged})
		})
	}

	s.awaitCheck("clusters", checkup.OK, "2 of 2 take new reservations")
	var out strings.Builder
	err := forgetCluster(t.Context(), s.Client, &out, brokerNamespace, "berlin")
	if err == nil || !strings.Contains(err.Error(), "the broker refuses") || !strings.Contains(err.Error(), "deniedClusters") {
		t.Fatalf("a cluster that was heard just now is forgotten: %v, %s", err, out.String())
	}
	config := &brokerv1alpha1.BrokerConfig{
		ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName},
		Spec:       brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"berlin"}},
	}
	s.check(s.Create(t.Context(), config))
	s.awaitCheck("clusters", checkup.OK, "Denied: berlin")
	ctx, cancel := context.WithTimeout(t.Context(), hangLimit)
	defer cancel()
	if err := forgetCluster(ctx, s.Client, &out, brokerNamespace, "berlin"); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	for _, p := range failpoint.Forgetting {
		if _, err := os.Stat(filepath.Join(killed, string(p))); err != nil {
			t.Errorf("the broker was not killed at %s", p)
		}
	}

	s.persist("the sides of rome", func(ctx context.Context) error {
		if err := rome.ReportStatus(ctx, lent.Name, &v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateGone}); err != nil {
			return err
		}
		return rome.ReportStatus(ctx, used.Name, &v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateGone})
	})
	for name, want := range map[string]brokerv1alpha1.ReservationPhase{lent.Name: brokerv1alpha1.ReservationFailed, used.Name: brokerv1alpha1.ReservationReleased} {
		s.await("the end of "+name, func() error {
			got := &brokerv1alpha1.Reservation{}
			err := s.Get(t.Context(), client.ObjectKey{Namespace: brokerNamespace, Name: name}, got)
			if err == nil && got.Status.Phase != want {
				err = fmt.Errorf("it is %s, want %s: %s", got.Status.Phase, want, got.Status.Message)
			}
			if placed := got.Status.Placements; err == nil && name == lent.Name && (len(placed) != 1 || placed[0].Reason != "ProviderForgotten") {
				err = fmt.Errorf("placements %+v, want one with ProviderForgotten", placed)
			}
			return err
		})
	}
	s.awaitCheck("clusters", checkup.OK, "1 of 1 take new reservations")

	// Admit the cluster again, so that it can return as a new cluster.
	admitted := config.DeepCopy()
	admitted.Spec.DeniedClusters = nil
	s.check(s.Patch(t.Context(), admitted, client.MergeFrom(config)))
	s.offer(s.connect("berlin", url), "berlin", "4", 1)
	s.awaitCheck("clusters", checkup.OK, "2 of 2 take new reservations")
	adv := &brokerv1alpha1.ClusterAdvertisement{}
	s.check(s.Get(t.Context(), client.ObjectKey{Namespace: brokerNamespace, Name: "berlin"}, adv))
	if free := adv.Spec.Resources.Available.Cpu().String(); free != "4" || adv.Status.Reliability != nil {
		t.Errorf("it has %s CPUs free and reliability %+v, want 4 and none", free, adv.Status.Reliability)
	}

	t.Run("deleting the object alone is explained", func(t *testing.T) {
		uid := adv.UID
		s.check(s.Delete(t.Context(), adv))
		s.await("the object is back", func() error {
			err := s.Get(t.Context(), client.ObjectKeyFromObject(adv), adv)
			if err == nil && adv.UID == uid {
				err = errors.New("it is not deleted yet")
			}
			return err
		})
		s.await("an event", func() error {
			list := &corev1.EventList{}
			if err := s.List(t.Context(), list, client.InNamespace(brokerNamespace)); err != nil {
				return err
			}
			for i := range list.Items {
				if list.Items[i].Reason == brokerv1alpha1.ReasonRecreated && strings.Contains(list.Items[i].Message, "broker forget berlin") {
					return nil
				}
			}
			return fmt.Errorf("none of %d events says why it is back", len(list.Items))
		})
	})
}

// await calls missing until it returns nil.
func (s *site) await(what string, missing func() error) {
	s.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		err := missing()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
