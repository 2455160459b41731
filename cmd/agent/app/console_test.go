package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/console/consoletest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestAgentServesTheConsole runs the agent's binary with the rights that the chart grants with console.enabled. The
// console works while the broker is away, and shows each user what the API server lets that user list.
func TestAgentServesTheConsole(t *testing.T) {
	plane := controlplanetest.Start(t)
	objects, err := chart.AgentWithConsole(agentName, agentName)
	runtest.Check(t, err)
	c := installObjects(t, plane, objects)
	request := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: "secret-plan", Namespace: "default"}}
	request.Spec.CPU, request.Spec.Memory = new(resource.MustParse("2")), new(resource.MustParse("4Gi"))
	runtest.Check(t, c.Create(t.Context(), request))
	port, err := plane.Port("console")
	runtest.Check(t, err)
	absent, err := plane.Port("broker")
	runtest.Check(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	browser := consoletest.NewBrowser(t, address, time.Now())
	startAgent(t, plane, []string{
		"--console-bind-address=" + address, "--console-cert-path=" + browser.CertDir, "--cluster-name=Rome",
		"--broker-cert-path=" + clusterCertificate(t), fmt.Sprintf("--broker-url=https://127.0.0.1:%d", absent),
		"--peering-mode=none", "--health-probe-bind-address=0", "--metrics-bind-address=0",
	})
	browser.Await()

	group := agentv1alpha1.GroupVersion.Group
	reader := consoletest.User(t, plane.RESTConfig(), "reader", group, "resourcerequests", "advertisements")
	nobody := consoletest.User(t, plane.RESTConfig(), "nobody", group)
	runtest.Await(t, "the request on the page of a reader", func() bool {
		_, text := browser.Load("/requests", reader)
		return strings.Contains(text, "secret-plan")
	})
	if status, text := browser.Load("/", reader); status != http.StatusOK || !strings.Contains(text, "Rome") {
		t.Errorf("the overview has status %d and does not name the cluster", status)
	}
	for _, path := range []string{"/", "/requests", "/lent"} {
		if status, text := browser.Load(path, nobody); status != http.StatusOK || strings.Contains(text, "secret-plan") || !strings.Contains(text, "you may not list") {
			t.Errorf("a user without rights gets %d for %s:\n%.2000s", status, path, text)
		}
		if status, text := browser.Load(path, ""); status != http.StatusUnauthorized || strings.Contains(text, "secret-plan") {
			t.Errorf("a guest gets %d for %s", status, path)
		}
	}
	if status, _ := browser.Load("/objects/resourcerequest/default/secret-plan", nobody); status != http.StatusNotFound {
		t.Errorf("a user without rights gets %d for the request", status)
	}
	if status, _ := browser.Load("/reservations", reader); status != http.StatusNotFound {
		t.Errorf("a page of the broker has status %d in a member", status)
	}
}

// clusterCertificate returns a folder with the certificate of cluster rome.
func clusterCertificate(t *testing.T) string {
	t.Helper()
	agents, dir := pkitest.New(t, "agents", time.Now()), t.TempDir()
	pair, err := agents.IssueClient("rome", "cluster.local")
	runtest.Check(t, err)
	runtest.Check(t, pkitest.Save(dir, pair, agents.CertPEM(), agents.CertPEM()))
	return dir
}
