package app

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity/identitytest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const agentName = "liqo-resource-broker-agent"

// TestAgentEnrolsItsCluster runs the agent's binary with only the shipped rights. The agent waits
// for a certificate, says why it is not ready, gets a certificate, and reports it in its
// Advertisement.
func TestAgentEnrolsItsCluster(t *testing.T) {
	plane := controlplanetest.Start(t)
	c := installAgent(t, plane)
	site := identitytest.New(t, clock.RealClock{})
	health, err := plane.Port("agent-health")
	runtest.Check(t, err)
	dir, token := filepath.Join(t.TempDir(), "tls"), filepath.Join(t.TempDir(), "token")
	runtest.Check(t, os.WriteFile(token, []byte("token.that.comes.late"), 0o600))
	running := startAgent(t, plane, []string{
		"--identity-secret=" + agentName + "-identity", "--broker-cert-path=" + dir, "--cluster-id=rome",
		"--enrolment-url=" + site.EnrolmentURL, "--enrolment-ca-hash=" + site.CAHash(t), "--enrolment-token=@" + token,
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", health), "--metrics-bind-address=0", "--bind-slices",
	})

	probe := fmt.Sprintf("http://127.0.0.1:%d/readyz", health)
	runtest.Await(t, "a probe with the remedy", func() bool {
		status, text := get(t, probe)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "broker enrol rome")
	})
	own := &corev1.Namespace{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: agentName}, own); err != nil {
		t.Fatal(err)
	}
	if _, written := own.Annotations["broker.fluidos.eu/guarded-peers"]; !written {
		t.Error("meanwhile the policies refuse consumers that other tools have peered")
	}
	site.Edit(func(r *identitytest.Registry) { r.Tokens["token.that.comes.late"] = "" })
	runtest.Await(t, "the agent's readiness", func() bool {
		status, _ := get(t, probe)
		return status == http.StatusOK
	})

	runtest.Check(t, site.Broker.AwaitCalls(t.Context(), transporttest.PublishAdvertisement, 1))
	if got := site.Broker.Calls(transporttest.PublishAdvertisement)[0].ClusterID; got != "rome" {
		t.Errorf("the advertisement came from %q", got)
	}
	var condition *metav1.Condition
	runtest.Await(t, "the condition of the certificate", func() bool {
		adv := &agentv1alpha1.Advertisement{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "cluster-advertisement"}, adv); err != nil {
			return false
		}
		condition = meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionCertificateValid)
		return condition != nil
	})
	if condition.Status != metav1.ConditionTrue || condition.Reason != agentv1alpha1.ReasonCertificateValid {
		t.Errorf("condition %+v", condition)
	}
	secret := &corev1.Secret{}
	runtest.Check(t, c.Get(t.Context(), client.ObjectKey{Namespace: agentName, Name: agentName + "-identity"}, secret))
	files, err := pki.OpenFiles(dir, time.Now)
	runtest.Check(t, err)
	credentials, err := files.Current()
	runtest.Check(t, err)
	stored, err := pki.KeyPair{CertPEM: secret.Data[pki.CertFile], KeyPEM: secret.Data[pki.KeyFile]}.TLS()
	if err != nil || !stored.Leaf.Equal(credentials.Certificate.Leaf) {
		t.Errorf("the secret holds another certificate than the files, %v", err)
	}
	said, err := os.ReadFile(running.Log())
	runtest.Check(t, err)
	for line := range strings.Lines(string(secret.Data[pki.KeyFile])) {
		if strings.Contains(string(said), strings.TrimSpace(line)) {
			t.Error("the log tells the private key")
		}
	}
}

// installAgent installs the agent's chart without its pods, into a namespace of the same name.
func installAgent(t *testing.T, plane *controlplane.ControlPlane) client.Client {
	t.Helper()
	objects, err := chart.AgentForProcess(agentName, agentName)
	runtest.Check(t, err)
	return installObjects(t, plane, objects)
}

// installObjects installs the objects of the agent's chart.
func installObjects(t *testing.T, plane *controlplane.ControlPlane, objects []manifest.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, agentv1alpha1.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	c, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	runtest.Check(t, err)
	for _, name := range []string{agentName, "liqo"} {
		runtest.Check(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	runtest.Check(t, manifest.Install(t.Context(), c, objects))
	return c
}

func startAgent(t *testing.T, plane *controlplane.ControlPlane, args []string) *process.Process {
	t.Helper()
	kubeconfig, err := plane.ServiceAccountKubeconfig(t.Context(), agentName, agentName)
	runtest.Check(t, err)
	running, err := plane.Processes().Start(process.Spec{
		Name: "agent", Path: controlplanetest.Program(t, "agent"), Layer: process.Controller, Env: []string{"POD_NAMESPACE=" + agentName},
		Args: append(args, "--kubeconfig="+kubeconfig, "--endpoint-url="+plane.URL()),
	})
	runtest.Check(t, err)
	t.Cleanup(running.Stop)
	return running
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	runtest.Check(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }() // the body was read to its end, so an error does not matter
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}
