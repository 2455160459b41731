package gitops

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/argocd"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/product"
)

// Times on a busy machine.
const (
	settledWithin = 4 * time.Minute
	readyWithin   = 2 * time.Minute
	prunedWithin  = 5 * time.Minute
	// steadyFor is how long nothing may change without a commit.
	steadyFor = 20 * time.Second
)

// workNamespace is where users of rome request capacity that is not in Git.
const workNamespace = "team-b"

const agentName = "agent-liqo-resource-broker-agent"

// Names of the files of the Applications.
const (
	brokerFile      = appsPath + "/broker.yaml"
	agentsFile      = appsPath + "/agents.yaml"
	requestsFile    = appsPath + "/requests.yaml"
	certManagerFile = appsPath + "/cert-manager.yaml"
	brokerKindsFile = appsPath + "/kinds-broker.yaml"
	memberKindsFile = appsPath + "/kinds-members.yaml"
)

// TestArgoCD follows an installation by Argo CD from its first commit to its removal. Each step continues with the
// state that the step before left.
func TestArgoCD(t *testing.T) {
	if testing.Short() {
		t.Skip("it boots a playground")
	}
	s := newSite(t)
	t.Cleanup(func() {
		if t.Failed() {
			s.printApplications(t)
			s.printLogs(t)
		}
	})
	for _, step := range []struct {
		name string
		run  func(*testing.T, *site)
	}{
		{"the broker becomes Synced and Healthy", installBroker},
		{"agents and requests become Synced and Healthy", installAgents},
		{"nothing drifts while the agents work", staySynced},
		{"a request that is not served is Degraded", showRefusals},
		{"an upgrade is synced and keeps what runs", upgrade},
		{"a member without its label drains first", removeMember},
		{"pruned agents drain first", pruneAgents},
		{"a removed root removes the broker", removeRoot},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, s) }) {
			return
		}
	}
}

func installBroker(t *testing.T, s *site) {
	// The playground has cert-manager already. The next step commits agents and requests.
	s.repository.removeFile(t, certManagerFile)
	agents, requests := s.repository.removeFile(t, agentsFile), s.repository.removeFile(t, requestsFile)
	s.repository.editFile(t, brokerFile, func(app map[string]any) {
		v := valuesOf(app)
		v["publicURL"], v["enrolmentURL"] = s.brokerURL(t, "rest"), s.brokerURL(t, "enrolment")
		v["brokerConfig"].(map[string]any)["approvedClusters"] = []any{
			map[string]any{"clusterID": "rome"}, map[string]any{"clusterID": "paris"},
		}
	})
	s.repository.commit(t, "install the broker")
	s.applyRoot(t)
	s.awaitSettled(t, settledWithin, rootApp, "liqo-resource-broker-kinds", "liqo-resource-broker-agent-kinds-rome",
		"liqo-resource-broker-agent-kinds-paris", brokerApp)
	s.repository.writeFile(t, agentsFile, agents)
	s.repository.writeFile(t, requestsFile, requests)
}

// applyRoot applies the app of apps, as a user does once.
func (s *site) applyRoot(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(s.repository.path(rootPath))
	e2etest.Check(t, err)
	_, err = s.Broker.Apply(t.Context(), text)
	e2etest.Check(t, err)
}

// allApplications returns the names of the Applications of the whole installation.
func allApplications() []string {
	return []string{
		rootApp, "liqo-resource-broker-kinds", "liqo-resource-broker-agent-kinds-rome",
		"liqo-resource-broker-agent-kinds-paris", brokerApp, agentApp + "rome", agentApp + "paris", requestsApp,
	}
}

// installAgents lets paris enrol with a token and rome with an approved key, the two ways that suit Git.
func installAgents(t *testing.T, s *site) {
	enrolment := s.enrolment(t.Context(), t, "paris")
	paris := s.Member("paris")
	e2etest.Check(t, s.EnsureNamespace(t.Context(), paris, product.Namespace))
	e2etest.Check(t, paris.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: product.Namespace, Name: "liqo-resource-broker-enrolment"},
		StringData: map[string]string{"token": enrolment["token"].(string)},
	}))
	s.repository.editFile(t, agentsFile, func(set map[string]any) {
		v := valuesOf(set)["enrolment"].(map[string]any)
		v["url"], v["caHash"] = s.brokerURL(t, "enrolment"), enrolment["caHash"]
	})
	s.repository.commit(t, "install the agents, and request capacity")
	fingerprint := s.awaitPending(t, "rome")
	s.repository.editFile(t, brokerFile, func(app map[string]any) {
		valuesOf(app)["brokerConfig"].(map[string]any)["approvedClusters"] = []any{
			map[string]any{"clusterID": "rome", "keyFingerprint": fingerprint}, map[string]any{"clusterID": "paris"},
		}
	})
	s.repository.commit(t, "approve the key of rome")
	s.awaitSettled(t, settledWithin, allApplications()...)
}

// awaitPending waits until a cluster asks to be approved, and returns the fingerprint of its key.
func (s *site) awaitPending(t *testing.T, id string) string {
	t.Helper()
	var fingerprint string
	e2etest.Check(t, e2e.Await(t.Context(), settledWithin, func(ctx context.Context) (string, error) {
		config := &brokerv1alpha1.BrokerConfig{}
		if err := s.Broker.Get(ctx, client.ObjectKey{Name: "default"}, config); err != nil {
			return "", err
		}
		for _, p := range config.Status.PendingEnrolments {
			if p.ClusterID == id {
				fingerprint = p.KeyFingerprint
				return "", nil
			}
		}
		return id + " to ask for its certificate", nil
	}))
	return fingerprint
}

// staySynced runs a workload on reserved capacity and checks that Argo CD finds no difference and starts no sync.
func staySynced(t *testing.T, s *site) {
	rome := s.Member("rome")
	e2etest.Check(t, s.EnsureNamespace(t.Context(), rome, workNamespace))
	before, err := s.applications(t.Context())
	e2etest.Check(t, err)
	r, err := rome.Request(t.Context(), workNamespace, "by-hand", smallResources())
	e2etest.Check(t, err)
	e2etest.Check(t, rome.AwaitReady(t.Context(), r, readyWithin))
	_, err = s.Run(t.Context(), rome, r)
	e2etest.Check(t, err)
	for began := time.Now(); time.Since(began) < steadyFor; time.Sleep(time.Second) {
		s.checkUnchanged(t, before)
	}
	for name := range before {
		s.refreshHard(t, name)
	}
	s.checkUnchanged(t, before)
}

// showRefusals commits requests that no cluster can serve, and reverts each.
func showRefusals(t *testing.T, s *site) {
	const tooLarge = "1000"
	burst := requestsPath + "/burst.yaml"
	resize := func(request map[string]any) { request["spec"].(map[string]any)["cpu"] = tooLarge }
	before, err := os.ReadFile(s.repository.path(burst))
	e2etest.Check(t, err)

	s.repository.editFile(t, burst, resize)
	s.repository.commit(t, "request more than a cluster has")
	s.awaitHealth(t, settledWithin, requestsApp, "Degraded")
	s.repository.writeFile(t, burst, before)
	s.repository.commit(t, "request as much as before")
	s.awaitSettled(t, settledWithin, allApplications()...)

	second := requestsPath + "/too-large.yaml"
	s.repository.writeFile(t, second, before)
	s.repository.editFile(t, second, func(request map[string]any) {
		request["metadata"].(map[string]any)["name"] = "too-large"
		resize(request)
	})
	s.repository.commit(t, "add a request that no cluster can hold")
	s.awaitHealth(t, settledWithin, requestsApp, "Degraded")
	s.repository.removeFile(t, second)
	s.repository.commit(t, "remove the request")
	s.awaitSettled(t, settledWithin, allApplications()...)
}

// checkUnchanged ends the test if an Application has changed.
func (s *site) checkUnchanged(t *testing.T, before map[string]*application) {
	t.Helper()
	now, err := s.applications(t.Context())
	e2etest.Check(t, err)
	if diff := cmp.Diff(before, now); diff != "" {
		t.Fatalf("Applications changed without a commit (-before +now):\n%s", diff)
	}
}

// nextVersion is the version that the upgrade installs.
const nextVersion = "0.2.0"

// upgrade changes the revision of charts and CRDs, which replaces every pod of the product.
func upgrade(t *testing.T, s *site) {
	rome := s.Member("rome")
	workload := s.findWorkload(t)
	before := s.productPods(t)
	s.repository.releaseCharts(t, nextVersion)
	for _, file := range []string{brokerFile, agentsFile, brokerKindsFile, memberKindsFile} {
		s.repository.editFile(t, file, func(app map[string]any) { sourceOf(app)["targetRevision"] = "v" + nextVersion })
	}
	s.repository.commit(t, "upgrade")
	e2etest.Check(t, e2e.Await(t.Context(), settledWithin, func(context.Context) (string, error) {
		now := s.productPods(t)
		for name := range before {
			if _, stays := now[name]; stays {
				return name + " to be replaced", nil
			}
		}
		return "", nil
	}))
	s.awaitSettled(t, settledWithin, allApplications()...)
	e2etest.Check(t, workload.Unchanged(t.Context()))
	e2etest.Check(t, s.AwaitHeld(t.Context(), rome.Name, 2, time.Second))
}

// findWorkload returns the pods on the capacity that was requested by hand.
func (s *site) findWorkload(t *testing.T) *e2e.Workload {
	t.Helper()
	r := &agentv1alpha1.ResourceRequest{}
	e2etest.Check(t, s.Member("rome").Get(t.Context(), client.ObjectKey{Namespace: workNamespace, Name: "by-hand"}, r))
	w, err := s.Watch(t.Context(), s.Member("rome"), r.Namespace, r.Status.TargetClusterID, r.Status.NodeName)
	e2etest.Check(t, err)
	return w
}

// productPods returns the pods of broker and agents.
func (s *site) productPods(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for name, kubelet := range s.kubelets {
		for _, pod := range kubelet.Pods() {
			out[name+"/"+pod.Name()] = true
		}
	}
	return out
}

// removeMember removes from Git first the requests of rome and then rome's label. Meanwhile a request that was made
// by hand uses paris, and paris uses rome.
func removeMember(t *testing.T, s *site) {
	paris := s.Member("paris")
	e2etest.Check(t, s.EnsureNamespace(t.Context(), paris, workNamespace))
	r, err := paris.Request(t.Context(), workNamespace, "from-rome", smallResources())
	e2etest.Check(t, err)
	e2etest.Check(t, paris.AwaitReady(t.Context(), r, readyWithin))
	s.repository.removeFile(t, requestsFile)
	s.repository.commit(t, "remove the requests of rome")
	apps := slices.DeleteFunc(allApplications(), func(name string) bool { return name == requestsApp })
	s.awaitSettled(t, settledWithin, apps...)
	e2etest.Check(t, s.AwaitHeld(t.Context(), "rome", 1, readyWithin))

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: argocd.Namespace, Name: clusterSecretName("rome")}}
	unlabel := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, memberLabel)
	e2etest.Check(t, s.Broker.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, unlabel)))
	s.awaitDrained(t, []string{"rome"}, "rome", "paris")
	s.awaitSettled(t, settledWithin, rootApp, "liqo-resource-broker-kinds", "liqo-resource-broker-agent-kinds-paris", brokerApp, agentApp+"paris")
	s.checkNothingLeft(t, s.Member("rome"))
	e2etest.Check(t, paris.DeleteAndWait(t.Context(), r, readyWithin))
}

// smallResources returns what a request made by hand asks for.
func smallResources() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
}

// pruneAgents removes the ApplicationSet of the agents from Git, while paris lends to a Reservation made in the
// broker's cluster.
func pruneAgents(t *testing.T, s *site) {
	const requester = "nobody"
	r := &brokerv1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "by-hand"},
		Spec:       brokerv1alpha1.ReservationSpec{RequesterID: requester, TargetClusterID: "paris"},
	}
	r.Spec.RequestedResources = brokerv1alpha1.RequestedResources{}
	maps.Copy(r.Spec.RequestedResources, smallResources())
	e2etest.Check(t, s.Broker.Create(t.Context(), r))
	e2etest.Check(t, s.AwaitReservation(t.Context(), r, readyWithin, brokerv1alpha1.ReservationReserved))
	s.repository.removeFile(t, agentsFile)
	s.repository.commit(t, "remove the agents")
	s.awaitDrained(t, []string{"paris"}, requester)
	s.awaitSettled(t, settledWithin, rootApp, "liqo-resource-broker-kinds", "liqo-resource-broker-agent-kinds-paris", brokerApp)
	s.checkNothingLeft(t, s.Member("paris"))
	e2etest.Check(t, s.AwaitClean(t.Context(), time.Minute))
}

// awaitDrained waits until no requester holds capacity and checks that the agents of some members are still there. It
// then confirms the deletion of their Applications and waits until the agents are gone.
func (s *site) awaitDrained(t *testing.T, members []string, requesters ...string) {
	t.Helper()
	var seen []string
	e2etest.Check(t, e2e.Await(t.Context(), prunedWithin, func(ctx context.Context) (string, error) {
		var held []string
		for _, requester := range requesters {
			of, err := s.Held(ctx, requester)
			if err != nil {
				return "", err
			}
			held = append(held, of...)
		}
		state := fmt.Sprintf("%v to be released", held)
		if !slices.Contains(seen, state) {
			seen = append(seen, state)
		}
		if len(held) > 0 {
			return state, nil
		}
		return "", nil
	}))
	t.Log(strings.Join(seen, "\n"))
	left, err := s.agentsLeft(t.Context(), members)
	e2etest.Check(t, err)
	if diff := cmp.Diff(members, left); diff != "" {
		t.Fatalf("agents that are left before the deletion is confirmed (-want +got):\n%s", diff)
	}
	for _, name := range members {
		s.awaitLeaving(t, name)
		s.confirmDeletion(t, agentApp+name)
	}
	e2etest.Check(t, e2e.Await(t.Context(), prunedWithin, func(ctx context.Context) (string, error) {
		left, err := s.agentsLeft(ctx, members)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return fmt.Sprintf("the agents of %v to go", left), nil
	}))
}

// awaitLeaving waits until the broker shows that a member is being uninstalled and takes no new placements.
func (s *site) awaitLeaving(t *testing.T, member string) {
	t.Helper()
	e2etest.Check(t, e2e.Await(t.Context(), readyWithin, func(ctx context.Context) (string, error) {
		adv, err := s.Advertisement(ctx, member)
		if err != nil {
			return "", err
		}
		ready := meta.FindStatusCondition(adv.Status.Conditions, brokerv1alpha1.ConditionReady)
		if ready == nil || ready.Reason != string(lending.ProviderLeaving) {
			return fmt.Sprintf("the broker to know that %s is being uninstalled: %+v", member, ready), nil
		}
		return "", nil
	}))
}

// confirmDeletion waits until an Application is being deleted and does what "argocd app confirm-deletion" does.
func (s *site) confirmDeletion(t *testing.T, name string) {
	t.Helper()
	app := &unstructured.Unstructured{}
	app.SetGroupVersionKind(applicationKind(""))
	e2etest.Check(t, e2e.Await(t.Context(), settledWithin, func(ctx context.Context) (string, error) {
		err := s.Broker.Get(ctx, client.ObjectKey{Namespace: argocd.Namespace, Name: name}, app)
		if err == nil && app.GetDeletionTimestamp() == nil {
			return name + " to be deleted", nil
		}
		return "", err
	}))
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"argocd.argoproj.io/deletion-approved":%q}}}`, time.Now().UTC().Format(time.RFC3339))
	e2etest.Check(t, s.Broker.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, patch)))
}

// agentsLeft returns those members whose agent's Deployment exists and is not being deleted.
func (s *site) agentsLeft(ctx context.Context, members []string) ([]string, error) {
	var left []string
	for _, name := range members {
		d := &appsv1.Deployment{}
		err := s.Member(name).Get(ctx, client.ObjectKey{Namespace: product.Namespace, Name: agentName}, d)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && d.DeletionTimestamp == nil {
			left = append(left, name)
		}
	}
	return left, nil
}

// checkNothingLeft fails the test if a release left workloads in its namespace. Secrets stay: without cleanup, a release
// keeps its certificates and identities.
func (s *site) checkNothingLeft(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	var left []string
	for _, list := range []client.ObjectList{
		&corev1.PodList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{}, &appsv1.DeploymentList{},
	} {
		e2etest.Check(t, c.List(t.Context(), list, client.InNamespace(product.Namespace)))
		e2etest.Check(t, meta.EachListItem(list, func(item runtime.Object) error {
			left = append(left, item.(metav1.Object).GetName())
			return nil
		}))
	}
	left = slices.DeleteFunc(left, func(name string) bool { return name == "default" }) // the account of each namespace
	if len(left) > 0 {
		t.Errorf("left in %s: %q", c.Name, left)
	}
}

// removeRoot deletes the app of apps and with it the broker.
func removeRoot(t *testing.T, s *site) {
	root := &unstructured.Unstructured{}
	root.SetGroupVersionKind(applicationKind(""))
	root.SetNamespace(argocd.Namespace)
	root.SetName(rootApp)
	e2etest.Check(t, s.Broker.Delete(t.Context(), root))
	s.awaitSettled(t, prunedWithin)
	s.checkNothingLeft(t, s.Broker)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(brokerv1alpha1.GroupVersion.WithKind("ReservationList"))
	if err := s.Broker.List(t.Context(), list); err != nil {
		t.Errorf("the CRDs must outlive the broker: %v", err)
	}
}
