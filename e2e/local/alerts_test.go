package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/charts/monitoringtest"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// alertFactor divides the durations in the rules, so that alerts fire sooner.
const alertFactor = 60

// firesWithin is how long an alert may take to fire. The longest divided duration is six minutes.
const firesWithin = 8 * time.Minute

// stagedFault is a fault of the product for which alerts fire.
type stagedFault struct {
	name   string
	alerts []string
	// stage causes the fault, and returns when it began and a function that ends it.
	stage func(t *testing.T, s *staging) (began time.Time, end func())
}

// faults has a fault for every alert. Errors of the broker begin with restoreBroker, because the alerts for error budgets
// look back for a while.
var faults = []stagedFault{
	{"a consumer exceeds its grant", []string{"AgentConsumerExceedsGrant"}, overrunGrant},
	{"all GPUs are held", []string{"BrokerRequestsWaitLong", "BrokerMemberOverBudget", "BrokerCapacityRunsOut"}, holdGPUs},
	{"own pods take reserved capacity", []string{"AgentReservedCapacityMissing", "AgentPodsPending"}, takeReserved},
	{"Liqo is too old", []string{"AgentLiqoNotReady"}, ageLiqo},
	{"a cluster advertises more than it has", []string{"BrokerAdvertisementsRefused"}, exaggerate},
	{"the certificate of an agent is short", []string{"AgentCertificateExpiring"}, shortenAgentCertificate},
	{"the certificate of the broker is short", []string{"BrokerCertificateExpiring"}, shortenBrokerCertificate},
	{"the consumer's agent hangs", []string{"BrokerDeliverySlow"}, hangConsumer},
	{"the provider's agent hangs", []string{"BrokerDeliveryFailing", "BrokerClusterPaused", "BrokerClusterSilent", "BrokerReleaseStuck"}, hangProvider},
	{"all replicas of the broker hang", []string{"BrokerDown", "AgentCutOff"}, hangBroker},
	{"the broker's cluster is restored without providers", []string{"BrokerClustersAwaited", "BrokerErrorBudgetBurn", "BrokerErrorBudgetBurnsSlowly"}, restoreBroker},
	{"etcd of the broker's cluster stutters", []string{"BrokerJournalSlow", "BrokerAnswersSlowly"}, slowEtcd},
	{"someone else writes the journal", []string{"BrokerJournalContested"}, contestJournal},
	{"a reservation is not used and a receiver does not exist", []string{"BrokerNotificationsBehind", "BrokerReservedUnused"}, leaveIdle},
}

// TestEveryAlertHasAFault needs no playground.
func TestEveryAlertHasAFault(t *testing.T) {
	var staged, shipped []string
	for _, f := range faults {
		staged = append(staged, f.alerts...)
	}
	for _, rule := range monitoringtest.ReadRules(t) {
		if rule.Alert != "" {
			shipped = append(shipped, rule.Alert)
		}
	}
	slices.Sort(staged)
	slices.Sort(shipped)
	if diff := cmp.Diff(shipped, staged); diff != "" {
		t.Errorf("alerts (-shipped +staged):\n%s", diff)
	}
}

// TestAlertsFireForTheirFaults stages each fault and waits until Prometheus fires its alerts. Prometheus loads the
// shipped rules with durations divided by alertFactor. The test logs a table of the times.
func TestAlertsFireForTheirFaults(t *testing.T) {
	monitoringtest.FindProgram(t, "prometheus")
	env := playgroundOf(t)
	s := &staging{Environment: env, rome: env.Member("rome"), paris: env.Member("paris"), berlin: env.Member("berlin"), prometheus: startPrometheus(t, env, hasten)}
	configure(t, env, brokerv1alpha1.BrokerConfigSpec{
		StaleThreshold: &metav1.Duration{Duration: time.Minute}, MemberBudget: &brokerv1alpha1.MemberBudget{Waiting: 1},
		Notifications: []brokerv1alpha1.NotificationChannel{{
			Name: "dead", Events: []string{"*"},
			CloudEvents: &brokerv1alpha1.CloudEventsTarget{URL: "https://192.0.2.1/in", SecretRef: brokerv1alpha1.SecretKeyRef{Name: "dead", Key: "key"}},
		}},
	})
	s.began = time.Now()
	_, _ = readyRequest(t, s.rome, "idle", small())
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			began, end := f.stage(t, s)
			s.awaitAlerts(t, f, began)
			end()
		})
	}
	t.Logf("times from fault to alert, with the rules' durations / %d:\n%s", alertFactor, s.table.String())
}

// staging is what the faults share.
type staging struct {
	*Environment
	rome, paris, berlin *e2e.Cluster
	// prometheus is its address.
	prometheus string
	// began is when the reservation idle was requested, which is never used.
	began time.Time
	table strings.Builder
}

// overrunGrant runs one pod beyond the grant, while no webhook refuses it.
func overrunGrant(t *testing.T, s *staging) (time.Time, func()) {
	withValue(t, s.Environment, peeredProvider, "webhook", map[string]any{"enabled": false})
	check(t, s.AwaitAdvertised(t.Context(), patience))
	held, err := s.Held(t.Context(), "rome")
	check(t, err)
	r, shadow, err := s.readyShadow(t.Context())
	check(t, err)
	began := time.Now()
	_, err = s.exceedGrant(t.Context(), shadow, "beyond")
	check(t, err)
	return began, func() {
		releaseAll(t, s.rome, r)
		// The provider's agent restarts next. Liqo waits longer after each deletion that its webhook does not answer.
		check(t, s.AwaitHeld(t.Context(), "rome", len(held), patience))
	}
}

// holdGPUs has one request wait for GPUs, and requests of another member that exceed its budget of waiting ones.
func holdGPUs(t *testing.T, s *staging) (time.Time, func()) {
	all, caller := small(), asCluster(t, s.Environment, "paris")
	all["nvidia.com/gpu"] = resource.MustParse("2")
	began := time.Now()
	holds, _ := readyRequest(t, s.rome, "holds", all)
	waits, err := s.rome.Request(t.Context(), namespace, "waits", all, func(r *agentv1alpha1.ResourceRequestSpec) { r.QueuePolicy = brokerv1alpha1.QueuePolicyQueue })
	check(t, err)
	resume := suspend(t, s, "paris") // the agent releases what no ResourceRequest asks for
	stop := repeat(t, func(ctx context.Context, i int) error {
		_, err := caller.RequestReservation(ctx, fmt.Sprintf("excessive-%d", i), &v1.ReservationRequest{
			Resources: v1.Amounts{"cpu": "10m", "memory": "16Mi", "nvidia.com/gpu": "2"}, QueuePolicy: v1.ReservationRequestQueuePolicyQueue,
		})
		return err
	})
	return began, func() {
		stop()
		_, err := caller.ReleaseReservation(t.Context(), "excessive-0", "")
		check(t, err)
		resume()
		check(t, s.AwaitAdvertised(t.Context(), patience))
		releaseAll(t, s.rome, waits, holds)
	}
}

func takeReserved(t *testing.T, s *staging) (time.Time, func()) {
	want := withGPU()
	want[corev1.ResourceCPU] = resource.MustParse("2")
	r, _ := readyRequest(t, s.rome, "taken", want)
	began := time.Now()
	check(t, s.berlin.Create(t.Context(), everything(namespace)))
	return began, func() {
		check(t, s.berlin.DeleteDeployments(t.Context(), namespace))
		releaseAll(t, s.rome, r)
		check(t, s.AwaitAdvertised(t.Context(), patience))
	}
}

func ageLiqo(t *testing.T, s *staging) (time.Time, func()) {
	began := time.Now()
	mend := editLiqo(t, s.berlin, func(d *appsv1.Deployment) { d.Labels["app.kubernetes.io/version"] = "v1.1.0" })
	check(t, s.Product.Restart(t.Context(), "berlin")) // agents check seldom
	return began, func() {
		mend(t.Context())
		check(t, s.Product.Restart(t.Context(), "berlin"))
		check(t, awaitOwnCondition(t.Context(), s.berlin, patience, agentv1alpha1.ConditionLiqoReady, metav1.ConditionTrue, ""))
		check(t, s.AwaitAdvertised(t.Context(), patience))
	}
}

func exaggerate(t *testing.T, s *staging) (time.Time, func()) {
	agent := asCluster(t, s.Environment, "berlin")
	return time.Now(), repeat(t, func(ctx context.Context, _ int) error {
		_, err := agent.PublishAdvertisement(ctx, &v1.Advertisement{
			ClusterID: "berlin", Timestamp: time.Now(), Capacity: v1.Amounts{"cpu": "1"}, Allocatable: v1.Amounts{"cpu": "8"}, Allocated: v1.Amounts{},
		})
		return err
	})
}

func shortenAgentCertificate(t *testing.T, s *staging) (time.Time, func()) {
	return shortenCertificate(t, s, "broker-agent-berlin", `agent_certificate_expiry_timestamp_seconds{job="berlin"}`)
}

func shortenBrokerCertificate(t *testing.T, s *staging) (time.Time, func()) {
	return shortenCertificate(t, s, "broker-tls", `broker_certificate_expiry_timestamp_seconds`)
}

// shortenCertificate has a Certificate issued for an hour, the shortest that cert-manager issues. The metric is its expiry.
func shortenCertificate(t *testing.T, s *staging, name, metric string) (time.Time, func()) {
	certificate := e2e.Object(certificateKind, s.BrokerNamespace, name)
	check(t, s.Broker.Get(t.Context(), client.ObjectKeyFromObject(certificate), certificate))
	was := certificate.Object["spec"].(map[string]any)
	// issue changes the Certificate, and waits until its owner uses one with the remaining seconds, for example "> 7200".
	issue := func(ctx context.Context, duration, renewBefore any, remaining string) {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"duration": duration, "renewBefore": renewBefore}}) // null removes
		check(t, err)
		check(t, s.Broker.Patch(ctx, certificate, client.RawPatch(types.MergePatchType, patch)))
		check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
			if err := s.Product.Carry(ctx, "berlin"); err != nil {
				return "", err
			}
			n, err := query(ctx, s.prometheus, metric+" - time() "+remaining)
			if err != nil || n > 0 {
				return "", err
			}
			return name + " to be used with a lifetime " + remaining + " s", nil
		}))
	}
	mend := sync.OnceFunc(func() { issue(context.Background(), was["duration"], was["renewBefore"], "> 7200") })
	t.Cleanup(mend)
	began := time.Now()
	issue(t.Context(), "1h", "20m", "< 3600")
	return began, mend
}

// hangConsumer suspends the consumer's agent until its reservations are late, which counts once their nodes are Ready.
func hangConsumer(t *testing.T, s *staging) (time.Time, func()) {
	tiny := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	held, err := s.Held(t.Context(), "rome")
	check(t, err)
	var late []client.Object
	began := time.Now()
	for i := range 12 {
		r, err := s.rome.Request(t.Context(), namespace, fmt.Sprintf("late-%d", i), tiny)
		check(t, err)
		late = append(late, r)
	}
	check(t, s.AwaitHeld(t.Context(), "rome", len(held)+len(late), patience))
	resume := suspend(t, s, "rome")
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		n, err := query(ctx, s.prometheus, `broker_oldest_in_phase_seconds{phase="Reserved"} > 65`)
		if err != nil || n > 0 {
			return "", err
		}
		return "reservations to be late", nil
	}))
	resume()
	return began, func() { releaseAll(t, s.rome, late...) }
}

// hangProvider suspends the agent of berlin. One of its reservations ends, and clusters request more of it.
func hangProvider(t *testing.T, s *staging) (time.Time, func()) {
	kept, _ := readyRequest(t, s.rome, "kept", withGPU())
	ended, _ := readyRequest(t, s.rome, "ended", withGPU())
	began := time.Now()
	resume := suspend(t, s, "berlin")
	endReservation(t, s.Environment, ended)
	unanswered := map[*e2e.Cluster][]client.Object{}
	for _, c := range []*e2e.Cluster{s.rome, s.paris} { // a cluster is paused for all if it failed two requesters
		for i := range 3 {
			r, err := c.Request(t.Context(), namespace, fmt.Sprintf("unanswered-%d", i), small(), func(r *agentv1alpha1.ResourceRequestSpec) {
				r.Constraints = &brokerv1alpha1.Constraints{IncludeClusters: []string{"berlin"}}
			})
			check(t, err)
			unanswered[c] = append(unanswered[c], r)
		}
	}
	return began, func() {
		resume()
		for c, requests := range unanswered {
			releaseAll(t, c, requests...)
		}
		releaseAll(t, s.rome, kept, ended)
		check(t, s.AwaitAdvertised(t.Context(), patience))
		check(t, s.liftPauses(t.Context(), "berlin", "its agent runs again"))
	}
}

func hangBroker(t *testing.T, s *staging) (time.Time, func()) {
	began, resume := time.Now(), suspend(t, s, playground.BrokerCluster)
	return began, func() {
		resume()
		check(t, s.AwaitAdvertised(t.Context(), patience))
	}
}

// slowEtcd suspends etcd half of the time, while a cluster requests and releases capacity. The broker keeps its lease.
func slowEtcd(t *testing.T, s *staging) (time.Time, func()) {
	processes := s.Playground.Clusters[playground.BrokerCluster].ControlPlane.Processes().Processes()
	etcd := processes[slices.IndexFunc(processes, func(p *process.Process) bool { return p.Name() == toolchain.Etcd.Name })]
	caller := asCluster(t, s.Environment, "paris")
	stopCalls := repeat(t, func(ctx context.Context, i int) error {
		key := fmt.Sprintf("slow-request-%d", i)
		_, err := caller.RequestReservation(ctx, key, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "10m", "memory": "16Mi"}})
		_, released := caller.ReleaseReservation(ctx, key, "")
		return errors.Join(err, released)
	})
	began := time.Now()
	stop := repeat(t, func(ctx context.Context, _ int) error {
		stopped := syscall.Kill(etcd.Pid(), syscall.SIGSTOP)
		runtest.Pause(ctx, 1300*time.Millisecond)
		continued := syscall.Kill(etcd.Pid(), syscall.SIGCONT)
		runtest.Pause(ctx, time.Second)
		return errors.Join(stopped, continued)
	})
	return began, func() {
		stop()
		stopCalls()
	}
}

// contestJournal edits the newest segment of the journal before each write of the broker.
func contestJournal(t *testing.T, s *staging) (time.Time, func()) {
	caller := asCluster(t, s.Environment, "paris")
	return time.Now(), repeat(t, func(ctx context.Context, i int) error {
		tail := e2e.Object(corev1.SchemeGroupVersion.WithKind("ConfigMap"), s.BrokerNamespace, "liqo-resource-broker-journal-tail")
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/edited":"%d"}}}`, i)
		if err := s.Broker.Patch(ctx, tail, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
		_, err := caller.ReleaseReservation(ctx, fmt.Sprintf("never-requested-%d", i), "") // the broker remembers the key
		return err
	})
}

// restoreBroker restores the broker's cluster to a state without the newest reservation, while both providers are down.
func restoreBroker(t *testing.T, s *staging) (time.Time, func()) {
	providers, snapshot := []string{"paris", "berlin"}, filepath.Join(t.TempDir(), "etcd")
	caller := asCluster(t, s.Environment, "paris")
	restoreEtcd(t, s.Environment, func(files string) error { return os.CopyFS(snapshot, os.DirFS(files)) })
	later, _ := readyRequest(t, s.rome, "later", small())
	for _, id := range providers {
		s.Product.Process(id).Kill()
	}
	restoreEtcd(t, s.Environment, func(files string) error {
		return errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(snapshot)))
	})
	began := time.Now()
	stop := repeat(t, func(ctx context.Context, i int) error {
		_, err := caller.RequestReservation(ctx, fmt.Sprintf("early-request-%d", i), &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "10m", "memory": "16Mi"}})
		return err
	})
	return began, func() {
		stop()
		for _, id := range providers {
			check(t, s.Product.Restart(t.Context(), id))
		}
		for _, id := range providers {
			awaitHoldings(t, s.Environment, id, false)
		}
		releaseAll(t, s.rome, later)
	}
}

// leaveIdle is for the faults that last from the beginning.
func leaveIdle(_ *testing.T, s *staging) (time.Time, func()) { return s.began, func() {} }

// suspend stops the processes of the broker or an agent until resume is called.
func suspend(t *testing.T, s *staging, name string) (resume func()) {
	t.Helper()
	signal(t, s.Environment, name, syscall.SIGSTOP)
	resume = sync.OnceFunc(func() { signal(t, s.Environment, name, syscall.SIGCONT) })
	t.Cleanup(resume)
	return resume
}

// releaseAll deletes requests, and waits until they are gone.
func releaseAll(t *testing.T, c *e2e.Cluster, requests ...client.Object) {
	t.Helper()
	for _, r := range requests {
		check(t, c.DeleteAndWait(t.Context(), r, patience))
	}
}

// repeat calls do every 200 ms until stop is called. The fault may fail the calls; repeat logs the last error.
func repeat(t *testing.T, do func(ctx context.Context, i int) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var last error
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		t.Logf("last error of the calls: %v", last)
	})
	t.Cleanup(stop)
	running.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			if err := do(ctx, i); err != nil && ctx.Err() == nil {
				last = err
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return stop
}

// ruleTime matches the durations and numbers of seconds in the rules. It does not match the limit of
// AgentCertificateExpiring, because cert-manager issues no certificate for four minutes.
var ruleTime = regexp.MustCompile(`(\[|for: )(\d+)([smhd])|(> |3 \* )(900|3600|86400)\b`)

// hasten divides the times in the rules that Prometheus loads by alertFactor.
func hasten(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"rules-broker.yaml", "rules-agent.yaml"} {
		file := filepath.Join(dir, name)
		text, err := os.ReadFile(file)
		check(t, err)
		rules := ruleTime.ReplaceAllStringFunc(string(text), func(found string) string {
			part := ruleTime.FindStringSubmatch(found)
			n, err := strconv.Atoi(part[2] + part[5])
			check(t, err)
			if unit := part[3]; unit != "" {
				n *= map[string]int{"s": 1, "m": 60, "h": 3600, "d": 86400}[unit]
				return fmt.Sprintf("%s%ds", part[1], n/alertFactor)
			}
			return part[4] + strconv.Itoa(n/alertFactor)
		})
		check(t, os.WriteFile(file, []byte(rules), 0o600))
	}
}

// awaitAlerts waits until the alerts of a fault fire that became active after the fault began.
func (s *staging) awaitAlerts(t *testing.T, f stagedFault, began time.Time) {
	t.Helper()
	waiting := slices.Clone(f.alerts)
	err := e2e.Await(t.Context(), firesWithin, func(ctx context.Context) (string, error) {
		var data struct {
			Alerts []struct {
				State               string
				ActiveAt            time.Time
				Labels, Annotations map[string]string
			}
		}
		if err := readPrometheus(ctx, s.prometheus, "alerts", &data); err != nil {
			return "", err
		}
		for _, alert := range data.Alerts {
			at := slices.Index(waiting, alert.Labels["alertname"])
			if at < 0 || alert.State != "firing" || alert.ActiveAt.Before(began) {
				continue
			}
			said := alert.Annotations["summary"] + " " + alert.Annotations["description"]
			if strings.Contains(said, "<") { // <no value> or <error expanding template: ...>
				t.Errorf("%s is not rendered: %s", waiting[at], said)
			}
			fmt.Fprintf(&s.table, "| %s | %s | %.0f s |\n", waiting[at], f.name, time.Since(began).Seconds())
			t.Logf("%s fires: %s", waiting[at], said)
			waiting = slices.Delete(waiting, at, at+1)
		}
		if len(waiting) > 0 {
			return fmt.Sprintf("%v to fire", waiting), nil
		}
		return "", nil
	})
	if err != nil {
		t.Error(err)
	}
}
