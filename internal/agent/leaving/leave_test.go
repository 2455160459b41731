package leaving

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestUninstallationWaitsUntilTheBrokerKnows checks that agent uninstall announces the uninstallation, and waits until
// the agent sets the condition Leaving. If the condition does not become true, the error must say what the broker may
// still do.
func TestUninstallationWaitsUntilTheBrokerKnows(t *testing.T) {
	leaving := func(status metav1.ConditionStatus, message string) *metav1.Condition {
		return &metav1.Condition{Type: agentv1alpha1.ConditionLeaving, Status: status, Reason: "Test", Message: message}
	}
	for name, tc := range map[string]struct {
		answer *metav1.Condition
		absent bool
		took   time.Duration
		wrong  string
	}{
		"the broker knows":           {answer: leaving(metav1.ConditionTrue, ""), took: time.Second},
		"the broker is away":         {answer: leaving(metav1.ConditionFalse, "no answer"), took: leaveTimeout, wrong: "no answer; the broker may grant"},
		"the agent does not run":     {took: leaveTimeout, wrong: "check that it runs; the broker may grant"},
		"the cluster offers nothing": {absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := leavingClient(t, tc.absent)
				if tc.answer != nil {
					go func() { // the agent
						time.Sleep(750 * time.Millisecond)
						adv := advertisementOf(t, c)
						adv.Status.Conditions = []metav1.Condition{*tc.answer}
						if err := c.Status().Update(context.Background(), adv); err != nil {
							t.Error(err)
						}
					}()
				}
				began := time.Now()
				l := NewLeaver(c, client.ObjectKey{Namespace: "default", Name: "cluster-advertisement"}, 10*time.Minute, clock.RealClock{})
				err := l.StopLending(t.Context())
				if (err != nil) != (tc.wrong != "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("got error %v, want %q", err, tc.wrong)
				}
				if took := time.Since(began); took != tc.took {
					t.Errorf("it took %s, want %s", took, tc.took)
				}
				if tc.absent {
					return
				}
				until := began.Add(12 * time.Minute).UTC().Format(time.RFC3339)
				if got := advertisementOf(t, c).Annotations[agentv1alpha1.LeavingUntilAnnotation]; got != until {
					t.Errorf("the announcement lasts until %q, want %q", got, until)
				}
				runtest.Check(t, l.ResumeLending(t.Context()))
				if got := advertisementOf(t, c).Annotations; len(got) != 0 {
					t.Errorf("annotations %q stay, want none", got)
				}
			})
		})
	}
}

func leavingClient(t *testing.T, absent bool) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	b := fakeclient.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&agentv1alpha1.Advertisement{})
	if !absent {
		b = b.WithObjects(&agentv1alpha1.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cluster-advertisement"}})
	}
	return b.Build()
}

func advertisementOf(t *testing.T, c client.Client) *agentv1alpha1.Advertisement {
	t.Helper()
	adv := &agentv1alpha1.Advertisement{}
	runtest.Check(t, c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "cluster-advertisement"}, adv))
	return adv
}
