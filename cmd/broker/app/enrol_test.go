package app

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

const testTrustDomain = "test.local"

// office is a site at which clusters enrol. It has two replicas, and a signer in place of
// cert-manager's issuer.
type office struct {
	*site
	// enrolments are the enrolment addresses of the replicas.
	enrolments []string
	// signed receives the clusters for which certificates were signed.
	signed chan string
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{site: newSite(t, 0), signed: make(chan string, 100)}
	o.installCertManager()
	go o.sign()
	for i := range 2 {
		name := fmt.Sprintf("broker-%d", i)
		address := o.address(name + "-enrolment")
		o.enrolments = append(o.enrolments, "https://"+address)
		o.replicas = append(o.replicas, o.startReplica(name,
			"--enrolment-bind-address="+address, "--enrolment-public-url="+o.enrolments[0], "--public-url=https://"+o.address("broker-0"),
			"--agents-issuer-name=agents", "--trust-domain="+testTrustDomain))
	}
	o.leader(nil)
	return o
}

// installCertManager installs cert-manager's CRDs and grants the broker its rights to them.
func (o *office) installCertManager() {
	o.t.Helper()
	out, err := exec.CommandContext(o.t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	o.check(err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "deploy", "crds", "*.yaml"))
	o.check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		o.check(err)
		kinds, err := manifest.Read(text)
		o.check(err)
		o.check(manifest.Install(o.t.Context(), o.Client, kinds))
	}
	loaded, err := chart.LoadFS(charts.Broker())
	o.check(err)
	rendered, err := chart.Render(loaded, chart.Release{
		Name: brokerNamespace, Namespace: brokerNamespace, Values: map[string]any{"fullnameOverride": brokerNamespace},
	})
	o.check(err)
	var rights []*unstructured.Unstructured
	for _, object := range rendered.Objects {
		if object.GroupVersionKind().Group == "rbac.authorization.k8s.io" {
			rights = append(rights, object)
		}
	}
	o.check(manifest.Apply(o.t.Context(), o.Client, rights))
}

// sign replaces cert-manager's controllers and issuer until the test ends.
func (o *office) sign() {
	c, err := certificateClient(o.plane.RESTConfig())
	o.check(err)
	requests, err := c.Watch(o.t.Context(), &cmapi.CertificateRequestList{})
	o.check(err)
	defer requests.Stop()
	for change := range requests.ResultChan() {
		request, ok := change.Object.(*cmapi.CertificateRequest)
		if !ok || len(request.Status.Certificate) > 0 || request.DeletionTimestamp != nil {
			continue
		}
		block, _ := pem.Decode(request.Spec.Request)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		o.check(err)
		request.Status.Certificate, err = o.agents.Certify(csr.PublicKey, &x509.Certificate{
			Subject: pkix.Name{CommonName: csr.Subject.CommonName}, URIs: csr.URIs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		o.check(err)
		request.Status.Conditions = []cmapi.CertificateRequestCondition{{
			Type: cmapi.CertificateRequestConditionReady, Status: cmmeta.ConditionTrue, Reason: cmapi.CertificateRequestReasonIssued,
		}}
		if err := client.IgnoreNotFound(c.Status().Update(o.t.Context(), request)); err != nil && o.t.Context().Err() == nil {
			o.t.Errorf("signing %q: %v", request.Name, err)
		}
		o.signed <- csr.Subject.CommonName
	}
}

func TestEnrolNamesAChartThatExists(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                   "oci://ghcr.io/mehdiazizian/charts/liqo-resource-broker-agent --version 1.2.3",
		"v1.2.3-14-gdb67227":       "charts/agent",
		"v1.2.3-dirty":             "charts/agent",
		"db67227":                  "charts/agent",
		"v0.0.0-20261126-db672278": "charts/agent",
		"unknown":                  "charts/agent",
	} {
		if got := agentChart(version); got != want {
			t.Errorf("version %s: got %q, want %q", version, got, want)
		}
	}
}

// issuedSince returns the clusters for which certificates were signed since the last call.
func (o *office) issuedSince() (clusters []string) {
	for {
		select {
		case cluster := <-o.signed:
			clusters = append(clusters, cluster)
		default:
			return clusters
		}
	}
}

// broker runs a command of the broker.
func (o *office) broker(args ...string) (string, error) {
	args = append(args, "--kubeconfig="+o.plane.Kubeconfig(), "--namespace="+brokerNamespace)
	out, err := exec.CommandContext(o.t.Context(), o.binary, args...).CombinedOutput()
	return string(out), err
}

// token creates a token with broker enrol, and parses the rest of the output.
func (o *office) token(clusterID string) (token, url, caHash string) {
	o.t.Helper()
	out, err := o.broker("enrol", clusterID)
	if err != nil {
		o.t.Fatalf("broker enrol: %v: %s", err, out)
	}
	if command := "helm upgrade --install agent "; !strings.Contains(out, command) {
		o.t.Errorf("where an agent waits for its token, only %q works:\n%s", command, out)
	}
	value := func(name string) string {
		found := regexp.MustCompile(`--set enrolment\.` + name + `=(\S+)`).FindStringSubmatch(out)
		if found == nil {
			o.t.Fatalf("no %s in:\n%s", name, out)
		}
		return found[1]
	}
	return value("token"), value("url"), value("caHash")
}

// applicant is a cluster with its own key.
type applicant struct {
	o       *office
	request *identity.Request
	to      *httptransport.Enroller
}

func (o *office) applicant(clusterID, url, caHash string) *applicant {
	o.t.Helper()
	to, err := httptransport.NewEnroller(httptransport.EnrollerOptions{URL: url, CAHashes: []string{caHash}, Now: time.Now})
	o.check(err)
	rules, err := to.Rules(o.t.Context())
	o.check(err)
	request, err := identity.NewRequest(clusterID, rules.TrustDomain)
	o.check(err)
	return &applicant{o: o, request: request, to: to}
}

// ask tries to enrol. It returns the reason of a refusal, "Pending", or "" and the certificate.
func (a *applicant) ask(token string) (*v1.IssuedCertificate, string) {
	a.o.t.Helper()
	issued, pending, err := a.to.Enrol(a.o.t.Context(), &v1.EnrolmentRequest{ClusterID: a.request.ClusterID, Csr: string(a.request.PEM), Token: token})
	switch {
	case pending != nil:
		return nil, "Pending"
	case err != nil && fault.ReasonOf(err) == "":
		a.o.t.Fatal(err)
	case err != nil:
		return nil, string(fault.ReasonOf(err))
	}
	return issued, ""
}

func (a *applicant) want(token, want string) *v1.IssuedCertificate {
	a.o.t.Helper()
	issued, got := a.ask(token)
	if got != want {
		a.o.t.Fatalf("%s: got %q, want %q", a.request.ClusterID, got, want)
	}
	return issued
}

// connect connects to the broker as an agent does, with the issued certificate.
func (a *applicant) connect(issued *v1.IssuedCertificate, urls ...string) *httptransport.Transport {
	a.o.t.Helper()
	dir := a.o.t.TempDir()
	a.o.check(pki.Replace(dir, map[string][]byte{
		pki.CertFile: []byte(issued.Certificate), pki.KeyFile: a.request.KeyPEM,
		pki.CAFile: []byte(issued.Ca), pki.AgentsCAFile: []byte(issued.AgentsCA),
	}))
	files, err := pki.OpenFiles(dir, time.Now)
	a.o.check(err)
	if len(urls) == 0 {
		urls = issued.BrokerURLs
	}
	c, err := httptransport.New(httptransport.Options{URLs: urls, Files: files})
	a.o.check(err)
	a.o.t.Cleanup(func() { a.o.check(c.Close()) })
	return c
}

// configure changes the spec of the BrokerConfig, which it creates if necessary.
func (o *office) configure(change func(*brokerv1alpha1.BrokerConfigSpec)) {
	o.t.Helper()
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}}
	if err := o.Get(o.t.Context(), client.ObjectKeyFromObject(config), config); err != nil {
		change(&config.Spec)
		o.check(o.Create(o.t.Context(), config))
		return
	}
	before := config.DeepCopy()
	change(&config.Spec)
	o.check(o.Patch(o.t.Context(), config, client.MergeFrom(before)))
}

// awaitConfig polls the BrokerConfig until check returns "".
func (o *office) awaitConfig(check func(*brokerv1alpha1.BrokerConfig) string) {
	o.t.Helper()
	config := &brokerv1alpha1.BrokerConfig{}
	for deadline := time.Now().Add(hangLimit); ; time.Sleep(20 * time.Millisecond) {
		o.check(o.Get(o.t.Context(), client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}, config))
		problem := check(config)
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("%s: %+v", problem, config.Status)
		}
	}
}

func TestClustersEnrol(t *testing.T) {
	o := newOffice(t)
	token, url, caHash := o.token("rome")
	rome := o.applicant("rome", url, caHash)
	_, follower := o.leader(nil)

	t.Run("with a token, at any replica, and again with the same key", func(t *testing.T) {
		o.applicant("paris", url, caHash).want(token, string(fault.TokenInvalid))
		o.applicant("rome", url, caHash).want(token[:len(token)-32]+strings.Repeat("a", 32), string(fault.TokenInvalid))
		if got := o.issuedSince(); got != nil {
			t.Fatalf("certificates of %q were asked for", got)
		}
		issued := rome.want(token, "")
		if len(issued.BrokerURLs) != 1 {
			t.Errorf("told %q", issued.BrokerURLs)
		}
		for _, r := range o.replicas {
			_, err := rome.connect(issued, r.url).Ping(t.Context())
			o.check(err)
		}
		for _, at := range o.enrolments {
			again := &applicant{o: o, request: rome.request, to: o.applicant("rome", at, caHash).to}
			again.want(token, "")
			o.applicant("rome", at, caHash).want(token, string(fault.TokenUsed))
		}
		o.issuedSince()
	})

	t.Run("and renew their certificates", func(t *testing.T) {
		c := rome.connect(rome.want(token, ""), follower.url)
		next, err := identity.NewRequest("rome", testTrustDomain)
		o.check(err)
		renewed, err := c.RenewCertificate(t.Context(), &v1.RenewalRequest{Csr: string(next.PEM)})
		o.check(err)
		_, err = (&applicant{o: o, request: next}).connect(renewed, follower.url).Ping(t.Context())
		o.check(err)
		other, err := identity.NewRequest("paris", testTrustDomain)
		o.check(err)
		if _, err := c.RenewCertificate(t.Context(), &v1.RenewalRequest{Csr: string(other.PEM)}); fault.ReasonOf(err) != fault.InvalidCSR {
			t.Errorf("renewal of another cluster: %v", err)
		}
		o.issuedSince()
	})

	t.Run("without a token after an approval of their key", func(t *testing.T) {
		berlin, impostor := o.applicant("berlin", o.enrolments[1], caHash), o.applicant("berlin", url, caHash)
		berlin.want("", "Pending")
		o.configure(func(*brokerv1alpha1.BrokerConfigSpec) {})
		berlin.want("", "Pending")
		impostor.want("", "Pending")
		o.awaitConfig(func(c *brokerv1alpha1.BrokerConfig) string {
			if p := c.Status.PendingEnrolments; len(p) != 2 || p[0].KeyFingerprint != berlin.request.Fingerprint {
				return "want berlin and its impostor to wait"
			}
			return ""
		})
		if got := o.issuedSince(); got != nil {
			t.Fatalf("certificates of %q were asked for before the approval", got)
		}
		o.awaitEvent(brokerv1alpha1.ReasonEnrolmentPending, berlin.request.Fingerprint)
		o.configure(func(s *brokerv1alpha1.BrokerConfigSpec) {
			s.ApprovedClusters = []brokerv1alpha1.ApprovedCluster{{ClusterID: "berlin", KeyFingerprint: berlin.request.Fingerprint}}
		})
		o.awaitApplied()
		berlin.want("", "")
		impostor.want("", "Pending")
		o.awaitConfig(func(c *brokerv1alpha1.BrokerConfig) string {
			if p := c.Status.PendingEnrolments; len(p) != 1 || p[0].KeyFingerprint != impostor.request.Fingerprint {
				return "want the impostor alone to wait"
			}
			return ""
		})
	})

	t.Run("again with a fresh token, with an event", func(t *testing.T) {
		c := rome.connect(rome.want(token, ""), follower.url)
		o.offer(c, "rome", "8", 1)
		o.awaitAdvertisement("rome")
		fresh, _, _ := o.token("rome")
		reinstalled := o.applicant("rome", url, caHash)
		reinstalled.want(fresh, "")
		o.awaitEvent(brokerv1alpha1.ReasonReEnrolled, reinstalled.request.Fingerprint)
	})

	t.Run("and leave nothing behind", func(t *testing.T) {
		c, err := certificateClient(o.plane.RESTConfig())
		o.check(err)
		var requests cmapi.CertificateRequestList
		o.check(c.List(t.Context(), &requests))
		if len(requests.Items) > 0 {
			t.Errorf("%d CertificateRequests are left", len(requests.Items))
		}
		_, secret, _ := strings.Cut(token, ".")
		o.wantNowhere(secret)
		o.wantNowhere("PRIVATE KEY")
	})
}

func TestDeniedClustersAreOut(t *testing.T) {
	const polls = 20
	o := newOffice(t)
	token, url, caHash := o.token("rome")
	rome := o.applicant("rome", url, caHash)
	issued := rome.want(token, "")
	unused, _, _ := o.token("rome")
	o.configure(func(*brokerv1alpha1.BrokerConfigSpec) {})
	o.awaitApplied()
	_, follower := o.leader(nil)

	ended := make(chan error, polls)
	for range polls {
		c := rome.connect(issued, follower.url)
		_, err := c.Ping(t.Context())
		o.check(err)
		go func() {
			_, err := c.FetchInstructions(t.Context(), "", time.Minute)
			ended <- err
		}()
	}
	began := time.Now()
	o.configure(func(s *brokerv1alpha1.BrokerConfigSpec) {
		s.DeniedClusters = []string{"rome"}
		s.ApprovedClusters = []brokerv1alpha1.ApprovedCluster{{ClusterID: "rome", KeyFingerprint: rome.request.Fingerprint}}
	})
	for range polls { // a poll that ends by itself, and not because of the denial, returns no error
		if err := <-ended; fault.ReasonOf(err) != fault.ClusterDenied {
			t.Errorf("a poll ended with %v", err)
		}
	}
	t.Logf("%d polls ended %s after the change", polls, time.Since(began).Round(time.Millisecond))

	o.awaitConfig(func(c *brokerv1alpha1.BrokerConfig) string {
		ready := meta.FindStatusCondition(c.Status.Conditions, brokerv1alpha1.ConditionReady)
		if ready == nil || ready.ObservedGeneration != c.Generation || !strings.Contains(ready.Message, "denied wins") {
			return "want Ready to say that the lists contradict each other"
		}
		return ""
	})
	o.issuedSince()
	next, err := identity.NewRequest("rome", testTrustDomain)
	o.check(err)
	_, err = rome.connect(issued, follower.url).RenewCertificate(t.Context(), &v1.RenewalRequest{Csr: string(next.PEM)})
	if fault.ReasonOf(err) != fault.ClusterDenied {
		t.Errorf("renewal: %v", err)
	}
	for _, token := range []string{token, unused, ""} {
		rome.want(token, string(fault.ClusterDenied))
	}
	if got := o.issuedSince(); got != nil {
		t.Errorf("certificates of %q were asked for", got)
	}
	if out, err := o.broker("enrol", "rome"); err == nil || !strings.Contains(out, "deniedClusters") {
		t.Errorf("broker enrol rome: %v: %s", err, out)
	}
	if out, err := o.broker("enrol", "Rome"); err == nil || !strings.Contains(out, "DNS label") {
		t.Errorf("broker enrol Rome: %v: %s", err, out)
	}
}

func (o *office) awaitApplied() {
	o.t.Helper()
	o.awaitConfig(func(c *brokerv1alpha1.BrokerConfig) string {
		if !meta.IsStatusConditionTrue(c.Status.Conditions, brokerv1alpha1.ConditionReady) || c.Status.ObservedGeneration != c.Generation {
			return "want the lists to be applied"
		}
		return ""
	})
}

func (o *office) awaitAdvertisement(clusterID string) {
	o.t.Helper()
	for deadline := time.Now().Add(hangLimit); ; time.Sleep(20 * time.Millisecond) {
		err := o.Get(o.t.Context(), client.ObjectKey{Namespace: brokerNamespace, Name: clusterID}, &brokerv1alpha1.ClusterAdvertisement{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			o.t.Fatal(err)
		}
	}
}

// awaitEvent waits for an event with the reason that names an object.
func (o *office) awaitEvent(reason, named string) {
	o.t.Helper()
	events := &unstructured.UnstructuredList{}
	events.SetGroupVersionKind(schema.GroupVersionKind{Group: eventsv1.GroupName, Version: "v1", Kind: "EventList"})
	for deadline := time.Now().Add(hangLimit); ; time.Sleep(20 * time.Millisecond) {
		o.check(o.List(o.t.Context(), events))
		for _, event := range events.Items {
			if event.Object["reason"] == reason && strings.Contains(fmt.Sprint(event.Object["note"]), named) {
				return
			}
		}
		if time.Now().After(deadline) {
			o.t.Fatalf("no event %s about %s among %d", reason, named, len(events.Items))
		}
	}
}

// wantNowhere fails the test if a text occurs in an object or in a log of a broker.
func (o *office) wantNowhere(text string) {
	o.t.Helper()
	var kept corev1.ConfigMapList
	o.check(o.List(context.Background(), &kept, client.InNamespace(brokerNamespace)))
	for _, object := range kept.Items {
		if strings.Contains(object.String(), text) {
			o.t.Errorf("%q is in ConfigMap %q", text, object.Name)
		}
	}
	for _, r := range o.replicas {
		log, err := os.ReadFile(r.Log())
		if err != nil || strings.Contains(string(log), text) {
			o.t.Errorf("%q is in log %q, %v", text, r.Log(), err)
		}
	}
}
