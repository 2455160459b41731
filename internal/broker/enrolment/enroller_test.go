package enrolment

import (
	"crypto/elliptic"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

func TestNewErrorNamesWrongFlag(t *testing.T) {
	good := newDesk(t, nil).Options
	cases := map[string]struct {
		edit func(*Options)
		want string
	}{
		"no issuer":                                     {func(o *Options) { o.Issuer.Name = "" }, "--agents-issuer-name"},
		"an issuer of no known kind":                    {func(o *Options) { o.Issuer.Kind = "Vault" }, "--agents-issuer-kind"},
		"no trust domain":                               {func(o *Options) { o.TrustDomain = "" }, "--trust-domain"},
		"a trust domain with a path":                    {func(o *Options) { o.TrustDomain = "a/b" }, "--trust-domain"},
		"a duration that is too short for cert-manager": {func(o *Options) { o.Duration = time.Minute }, "--agent-certificate-duration"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := good
			tc.edit(&o)
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New: %v, want an error about %s", err, tc.want)
			}
		})
	}
}

func TestEnrolRequestsAndReturnsCertificate(t *testing.T) {
	d := newDesk(t, signs())
	var asked *cmapi.CertificateRequest
	sign := d.signer
	d.signer = func(d *desk, request *cmapi.CertificateRequest) {
		asked = request.DeepCopy()
		sign(d, request)
	}
	csr := asked256(t)
	issued, _, err := d.enrolCluster(csr, d.token("rome"))
	d.check(err)
	want := cmapi.CertificateRequestSpec{
		Request: []byte(csr), IssuerRef: d.Issuer, Duration: &metav1.Duration{Duration: 24 * time.Hour},
		Usages: []cmapi.KeyUsage{cmapi.UsageDigitalSignature, cmapi.UsageClientAuth},
	}
	if diff := cmp.Diff(want, asked.Spec); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	if len(asked.Name) > 63 || asked.Labels[requestLabel] != "rome" {
		t.Errorf("name %q, labels %v", asked.Name, asked.Labels)
	}
	answer := &v1.IssuedCertificate{
		Certificate: issued.Certificate, Ca: string(d.servers.CertPEM()), AgentsCA: string(d.agents.CertPEM()),
		BrokerURLs: []string{"https://broker:8443"},
	}
	if diff := cmp.Diff(answer, issued); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if left := d.requests(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func asked256(t testing.TB) string { return asked(t, newKey(t, elliptic.P256())) }

func TestEnrolRefusesDeviatingIssuer(t *testing.T) {
	ready := cmapi.CertificateRequestConditionReady
	cases := map[string]struct {
		signer signer
		want   fault.Reason
		// detail and log are parts of the error. The caller is told only detail, the log of the
		// broker also has log.
		detail, log string
		// left is true if the CertificateRequest stays for the next call.
		left bool
	}{
		"sign":               {signer: signs()},
		"not answer in time": {want: fault.Unavailable, detail: "try again", left: true},
		"say that it is pending": {
			signer: refuses(ready, cmmeta.ConditionFalse, cmapi.CertificateRequestReasonPending), want: fault.Unavailable, left: true,
		},
		"deny it": {
			signer: refuses(cmapi.CertificateRequestConditionDenied, cmmeta.ConditionTrue, "policy"), want: fault.IssuanceDenied, detail: "so it is",
		},
		"say that it was denied": {
			signer: refuses(ready, cmmeta.ConditionFalse, cmapi.CertificateRequestReasonDenied), want: fault.IssuanceDenied, detail: "so it is",
		},
		"fail": {
			signer: refuses(ready, cmmeta.ConditionFalse, cmapi.CertificateRequestReasonFailed), want: fault.IssuanceFailed, detail: "so it is",
		},
		"sign another name": {
			signer: signs(func(c *x509.Certificate) { c.Subject.CommonName = "paris"; c.URIs = nil }), want: fault.IssuanceFailed, log: `"paris"`,
		},
		"leave the URI out": {
			signer: signs(func(c *x509.Certificate) { c.URIs = nil }), want: fault.IssuanceFailed, log: "spiffe://fluidos.eu/cluster/rome",
		},
		"sign it in another trust domain": {
			signer: signs(func(c *x509.Certificate) { c.URIs = []*url.URL{uri(t, "spiffe://evil/cluster/rome")} }), want: fault.IssuanceFailed, log: "evil",
		},
		"make a server of it": {
			signer: signs(func(c *x509.Certificate) {
				c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
			}),
			want: fault.IssuanceFailed, log: "more than client authentication",
		},
		"add a name": {
			signer: signs(func(c *x509.Certificate) { c.DNSNames = []string{"broker"} }), want: fault.IssuanceFailed, log: "more than client authentication",
		},
		"make a CA of it": {
			signer: signs(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }), want: fault.IssuanceFailed, log: "CA certificate",
		},
		"sign another key": {
			signer: func(d *desk, request *cmapi.CertificateRequest) {
				pair, err := d.agents.IssueClient("rome", trustDomain)
				d.check(err)
				d.end(request, pair.CertPEM, ready, cmmeta.ConditionTrue, "")
			},
			want: fault.IssuanceFailed, log: "another key",
		},
		"sign with an untrusted CA": {
			signer: func(d *desk, request *cmapi.CertificateRequest) {
				d.agents = d.authority()
				signs()(d, request)
			},
			want: fault.IssuanceFailed, log: pki.AgentsCAFile,
		},
		"give something that is no certificate": {
			signer: func(d *desk, request *cmapi.CertificateRequest) {
				d.end(request, []byte("x"), ready, cmmeta.ConditionTrue, "")
			},
			want: fault.IssuanceFailed, log: "PEM",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, tc.signer)
			if tc.left {
				d.IssueWait = shortWait
			}
			issued, _, err := d.enrolCluster(asked256(t), d.token("rome"))
			if got := fault.ReasonOf(err); got != tc.want || (issued == nil) == (tc.want == "") {
				t.Fatalf("got %+v, %v; want reason %q", issued, err, tc.want)
			}
			if left := len(d.requests()); (left > 0) != tc.left {
				t.Errorf("%d CertificateRequests are left", left)
			}
			if err == nil {
				return
			}
			if told := fmt.Sprint(err); !strings.Contains(told, tc.log) || !strings.Contains(told, tc.detail) {
				t.Errorf("error %q does not say %q and %q", told, tc.detail, tc.log)
			}
		})
	}
}

func TestEnrolFindsLateCertificateOnNextCall(t *testing.T) {
	d := newDesk(t, nil)
	csr, token := asked256(t), d.token("rome")
	if _, _, err := d.enrolCluster(csr, token); fault.ReasonOf(err) != fault.Unavailable {
		t.Fatalf("got %v, want Unavailable", err)
	}
	signs()(d, &d.requests()[0])
	issued, _, err := d.enrolCluster(csr, token)
	if err != nil || issued == nil || len(d.made) != 1 {
		t.Errorf("got %+v, %v after %d requests, want one", issued, err, len(d.made))
	}
}

func TestEnrolReplacesOldRequest(t *testing.T) {
	d := newDesk(t, nil)
	csr, token := asked256(t), d.token("rome")
	_, _, _ = d.enrolCluster(csr, token)
	signs()(d, &d.requests()[0])
	d.clock.Step(requestLifetime)
	d.signer, d.IssueWait = signs(), longWait
	if _, _, err := d.enrolCluster(csr, token); err != nil || len(d.made) != 2 {
		t.Errorf("%v after %d requests, want two", err, len(d.made))
	}
}

func TestRefusedEnrolmentCreatesNoRequest(t *testing.T) {
	d := newDesk(t, signs(), &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}})
	token := d.token("rome")
	for name, ask := range map[string]func() error{
		"a wrong token": func() error {
			_, _, err := d.enrolCluster(asked256(t), token[:len(token)-secretLength]+strings.Repeat("a", secretLength))
			return err
		},
		"a wrong request": func() error { _, _, err := d.enrolCluster(asked(t, newKey(t, elliptic.P521())), token); return err },
		"a wait":          func() error { _, _, err := d.enrolCluster(asked256(t), ""); return err },
		"another's renewal": func() error {
			_, err := d.Renew(t.Context(), "paris", &v1.RenewalRequest{Csr: asked256(t)})
			return err
		},
		"a denied cluster": func() error {
			d.allow(denied)
			_, _, err := d.enrolCluster(asked256(t), token)
			return err
		},
		"its renewal": func() error {
			d.allow(denied)
			_, err := d.Renew(t.Context(), "rome", &v1.RenewalRequest{Csr: asked256(t)})
			return err
		},
	} {
		d.allow(brokerv1alpha1.BrokerConfigSpec{})
		if err := ask(); len(d.made) > 0 {
			t.Errorf("%s: %v, and %q were made", name, err, d.made)
		}
	}
}

func TestConcurrentKeysWithOneTokenYieldOneCertificate(t *testing.T) {
	d := newDesk(t, signs())
	token, other := d.token("rome"), asked256(t)
	var first error
	d.beforeUpdate = func() { _, _, first = d.enrolCluster(other, token) }
	_, _, err := d.enrolCluster(asked256(t), token)
	if first != nil || fault.ReasonOf(err) != fault.TokenUsed {
		t.Errorf("the first got %v, the second %v", first, err)
	}
	if len(d.made) != 1 {
		t.Errorf("%d certificates were asked for, want one", len(d.made))
	}
}

func TestReEnrolmentEmitsEvent(t *testing.T) {
	known := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome"}}
	d := newDesk(t, signs(), known)
	csr, token := asked256(t), d.token("rome")
	for range 2 {
		_, _, err := d.enrolCluster(csr, token)
		d.check(err)
	}
	if got := len(d.recorder.Events); got != 1 {
		t.Fatalf("%d events, want one", got)
	}
	if event := <-d.recorder.Events; !strings.Contains(event, brokerv1alpha1.ReasonReEnrolled) || !strings.Contains(event, "sha256:") {
		t.Errorf("event %q", event)
	}
}

func TestUpkeepRemovesExpiredObjects(t *testing.T) {
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}}
	broken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tokenPrefix + "x", Labels: map[string]string{TokenLabel: "rome"}}}
	stranger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "journal"}}
	d := newDesk(t, nil, config, broken, stranger)
	d.token("rome")
	_, _, _ = d.enrolCluster(asked256(t), d.token("rome"))
	_, _, err := d.enrolCluster(asked256(t), "")
	d.check(err)

	counts := func() string {
		t.Helper()
		d.check(d.runUpkeep(t.Context()))
		var tokens corev1.ConfigMapList
		d.check(d.List(t.Context(), &tokens, client.HasLabels{TokenLabel}))
		d.check(d.Get(t.Context(), client.ObjectKeyFromObject(config), config))
		return fmt.Sprintf("%d tokens, %d requests, %d waiting", len(tokens.Items), len(d.requests()), len(config.Status.PendingEnrolments))
	}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "2 tokens, 1 requests, 1 waiting"},
		{requestLifetime, "2 tokens, 0 requests, 1 waiting"},
		{pendingLifetime - requestLifetime, "2 tokens, 0 requests, 0 waiting"},
		{tokenAfterlife, "0 tokens, 0 requests, 0 waiting"},
	} {
		d.clock.Step(step.after)
		if got := counts(); got != step.want {
			t.Errorf("after %s more: %s, want %s", step.after, got, step.want)
		}
	}
	d.check(d.Get(t.Context(), client.ObjectKeyFromObject(stranger), stranger))
}

func TestFactsFollowCA(t *testing.T) {
	d := newDesk(t, nil)
	if _, err := ReadFacts(t.Context(), d, namespace); err == nil || !strings.Contains(err.Error(), "--enrolment-bind-address") {
		t.Errorf("without a broker: %v", err)
	}
	d.check(d.publishFacts(t.Context()))
	roots, err := pki.ParseBundle(d.servers.CertPEM())
	d.check(err)
	got, err := ReadFacts(t.Context(), d, namespace)
	if diff := cmp.Diff(Facts{URL: "https://broker:8444", CAHash: pki.KeyHash(roots[0])}, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	d.EnrolmentURL = "https://elsewhere"
	d.check(d.publishFacts(t.Context()))
	if got, err := ReadFacts(t.Context(), d, namespace); err != nil || got.URL != "https://elsewhere" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMakeTokenChecksAccess(t *testing.T) {
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}}
	cases := map[string]struct {
		spec         brokerv1alpha1.BrokerConfigSpec
		id           string
		want         string
		wantApproved bool
	}{
		"any":                         {id: "rome", wantApproved: true},
		"a denied one":                {spec: denied, id: "rome", want: "deniedClusters"},
		"one that has to be approved": {spec: approve(brokerv1alpha1.AdmissionApproved, "paris", ""), id: "rome"},
		"one that is approved":        {spec: approve(brokerv1alpha1.AdmissionApproved, "rome", ""), id: "rome", wantApproved: true},
		"one that cannot be":          {id: "Rome", want: "DNS label"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := config.DeepCopy()
			config.Spec = tc.spec
			d := newDesk(t, nil, config)
			made, err := MakeToken(t.Context(), d, namespace, tc.id, noon)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%+v, %v; want an error with %q", made, err, tc.want)
				}
				return
			}
			if err != nil || made.Approved != tc.wantApproved || !made.Expires.Equal(noon.Add(TokenLifetime)) {
				t.Errorf("%+v, %v", made, err)
			}
		})
	}
}

// TestTokenSecretIsNeverStored checks that a token's secret appears in no ConfigMap, event or log
// line of the broker.
func TestTokenSecretIsNeverStored(t *testing.T) {
	known := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rome"}}
	d := newDesk(t, signs(), known)
	token := d.token("rome")
	_, secret, _ := strings.Cut(token, ".")
	for _, csr := range []string{asked256(t), asked256(t), "x"} {
		_, _, _ = d.enrolCluster(csr, token)
		_, _, _ = d.enrolCluster(csr, token+"a")
	}
	d.check(d.runUpkeep(t.Context()))
	var kept corev1.ConfigMapList
	d.check(d.List(t.Context(), &kept))
	everything := d.log.String() + fmt.Sprintf("%+v", kept)
	for len(d.recorder.Events) > 0 {
		everything += <-d.recorder.Events
	}
	if strings.Contains(everything, secret) || len(kept.Items) < 2 {
		t.Errorf("the token's secret is in:\n%s", everything)
	}
}
