package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/config"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// serveEnrolment answers every request in place of a broker's enrolment listener. With agents, it demands a
// certificate of that CA, as the listener for agents does.
func serveEnrolment(t *testing.T, servers, agents *pkitest.Authority) (url string) {
	t.Helper()
	pair, err := servers.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	runtest.Check(t, err)
	certificate, err := pair.TLS()
	runtest.Check(t, err)
	certificate.Certificate = append(certificate.Certificate, servers.Certificate().Raw)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	if agents != nil {
		s.TLS.ClientAuth, s.TLS.ClientCAs = tls.RequireAndVerifyClientCert, agents.Pool()
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestCheckExplainsWhyAClusterHasNotEnrolled(t *testing.T) {
	servers, agents := pkitest.New(t, "servers", time.Now()), pkitest.New(t, "agents", time.Now())
	right, wrong := pki.KeyHash(servers.Certificate()), pki.KeyHash(agents.Certificate())
	open := serveEnrolment(t, servers, nil)
	for name, tc := range map[string]struct{ url, hash, says, advises string }{
		"without enrolment":              {says: "has not made its Advertisement", advises: "broker enrol CLUSTER-ID"},
		"another CA":                     {url: open, hash: wrong, says: "none of the CAs in its chain", advises: "correct enrolment.url and enrolment.caHash"},
		"no hash":                        {url: open, says: "--enrolment-ca-hash", advises: "correct enrolment.url and enrolment.caHash"},
		"an http address":                {url: "http://127.0.0.1:1", hash: right, says: `scheme is "http"`, advises: "correct enrolment.url"},
		"the listener for agents":        {url: serveEnrolment(t, servers, agents), hash: right, says: "8444 by default", advises: "correct enrolment.url"},
		"nothing listens there":          {url: "https://127.0.0.1:1", hash: right, says: "connection refused", advises: "correct enrolment.url"},
		"it waits for its administrator": {url: open, hash: right, says: "the enrolment listener answers", advises: "approve the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &checkOptions{options: defaultOptions()}
			o.enrolmentURL = tc.url
			if tc.hash != "" {
				o.enrolmentCAHashes = []string{tc.hash}
			}
			got := findingsOf(t, o)
			if len(got) != 1 || got[0].Level != checkup.Failed || !strings.Contains(got[0].Message, tc.says) || !strings.Contains(got[0].Advice, tc.advises) {
				t.Errorf("got %+v, want %q and advice %q", got, tc.says, tc.advises)
			}
		})
	}
}

// findingsOf returns what the check finds about the Advertisement in a cluster with the given objects.
func findingsOf(t *testing.T, o *checkOptions, objects ...client.Object) (findings []checkup.Finding) {
	t.Helper()
	scheme, err := newScheme()
	runtest.Check(t, err)
	for _, check := range o.checkAdvertisement(t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()) {
		findings = append(findings, check.Look(t.Context()))
	}
	return findings
}

func TestCheckPrintsConditionsOfAdvertisement(t *testing.T) {
	o := &checkOptions{options: defaultOptions()}
	adv := &agentv1alpha1.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: o.advertisementNamespace, Name: o.advertisementName}}
	if got := findingsOf(t, o, adv); len(got) != 1 || got[0].Level != checkup.Failed {
		t.Errorf("without a status: %+v", got)
	}
	adv.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "BrokerUnreachable", Message: "why"},
		{Type: "CertificateValid", Status: metav1.ConditionTrue, Reason: "CertificateValid", Message: "until"},
	}
	if got := findingsOf(t, o, adv); len(got) != 2 || got[0].Level != checkup.Failed || got[1].Level != checkup.OK {
		t.Errorf("with two conditions: %+v", got)
	}
}

func TestCheckReadsTheFile(t *testing.T) {
	for text, want := range map[string]checkup.Finding{
		"":                                checkup.Skip("--config is not given"),
		string(config.AgentConfiguration): checkup.Found("agent.yaml is valid"),
		string(config.AgentConfiguration) + "extra: 1\n": checkup.Fail("", `unknown key "extra"`),
	} {
		o := &checkOptions{options: defaultOptions()}
		if text != "" {
			o.configFile = filepath.Join(t.TempDir(), "agent.yaml")
			runtest.Check(t, os.WriteFile(o.configFile, []byte(text), 0o600))
		}
		if got := o.checkConfiguration(); got.Level != want.Level || !strings.Contains(got.Message, want.Message) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

func TestCheckRefusesGroupsThatFlagsRuleOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.yaml")
	runtest.Check(t, os.WriteFile(file, []byte(`apiVersion: agent.fluidos.eu/v1alpha1
kind: AgentConfiguration
offer:
  taints: ["spot=yes:NoSchedule"]
  elastic: [{name: a, nodes: 1, each: {cpu: "1", memory: 1Gi}, labels: {pool: a}, taints: ["spot=yes:NoSchedule"], readyWithin: 8m}]
`), 0o600))
	for want, change := range map[string]func(*options){
		"is valid":                  func(*options) {},
		"set --hold=Placeholder":    func(o *options) { o.hold = string(agentv1alpha1.HoldLedger) },
		"let the agent peer":        func(o *options) { o.peeringMode = peeringNone },
		`group "a" with taint spot`: func(o *options) { o.webhook.Address = webhooks.Off },
		"17 labels of nodes are published, at most 16 can be: a0, a1,": func(o *options) {
			for i := range maxNodeLabels {
				o.nodeLabels = append(o.nodeLabels, fmt.Sprint("a", i))
			}
		},
	} {
		o := &checkOptions{options: defaultOptions()}
		o.configFile, o.hold, o.webhook.Address = file, string(agentv1alpha1.HoldPlaceholder), ":9443"
		change(o.options)
		if got := o.checkConfiguration(); !strings.Contains(got.Message, want) || (got.Level == checkup.OK) != (want == "is valid") {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}
