package app

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
)

// awaitCheck repeats the checks until the one about the subject returns a finding with the level and the text.
func (s *site) awaitCheck(subject string, level checkup.Level, says string) {
	s.t.Helper()
	o := &checkOptions{options: defaultOptions()}
	o.namespace = brokerNamespace
	scheme, err := newScheme()
	s.check(err)
	c, err := client.New(s.plane.RESTConfig(), client.Options{Scheme: scheme})
	s.check(err)
	checks, err := o.buildChecks(s.t.Context(), s.plane.RESTConfig(), c)
	s.check(err)
	at := slices.IndexFunc(checks, func(c checkup.Check) bool { return c.Subject == subject })
	if at < 0 {
		s.t.Fatalf("there is no check %q", subject)
	}
	deadline := time.Now().Add(hangLimit)
	for {
		got := checks[at].Look(s.t.Context())
		if got.Level == level && strings.Contains(got.Message, says) {
			s.t.Logf("%s: %s\n-> %s", subject, got.Message, got.Advice)
			if level == checkup.Failed && got.Advice == "" {
				s.t.Errorf("check %q fails without a remedy: %s", subject, got.Message)
			}
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("check %q: got %+v, want %s and %q", subject, got, level, says)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestCheckSeesDeniedClustersAndBrokersThatHang suspends all replicas: every object stays as it
// was, and only the lease shows that no broker works.
func TestCheckSeesDeniedClustersAndBrokersThatHang(t *testing.T) {
	s := newSite(t, 2)
	s.leader(nil)
	both := []string{s.replicas[0].url, s.replicas[1].url}
	s.offer(s.connect("paris", both...), "paris", "8", 1)
	s.offer(s.connect("rome", both...), "rome", "8", 1)
	s.awaitCheck("leader", checkup.OK, " leads since ")
	s.awaitCheck("clusters", checkup.OK, "2 of 2 take new reservations")

	s.check(s.Create(t.Context(), &brokerv1alpha1.BrokerConfig{
		ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName},
		Spec:       brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"paris"}},
	}))
	s.awaitCheck("clusters", checkup.OK, "1 of 2 take new reservations; Denied: paris")
	paris := &brokerv1alpha1.ClusterAdvertisement{}
	s.check(s.Get(t.Context(), client.ObjectKey{Namespace: brokerNamespace, Name: "paris"}, paris))
	if paris.Status.Phase != brokerv1alpha1.ClusterAdvertisementDenied {
		t.Errorf("the ClusterAdvertisement of a denied cluster has phase %q", paris.Status.Phase)
	}

	for _, r := range s.replicas {
		s.check(r.signal(syscall.SIGSTOP))
	}
	s.awaitCheck("leader", checkup.Failed, "has not renewed lease "+brokerNamespace+"/"+leaseName+" since")
	for _, r := range s.replicas {
		s.check(r.signal(syscall.SIGCONT))
	}
	s.awaitCheck("leader", checkup.OK, " leads since ")
}
