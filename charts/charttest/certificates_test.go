package charttest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
)

// certificates returns the Certificates of a release by name.
func certificates(t *testing.T, rendered *chart.Rendered) map[string]certmanagerv1.CertificateSpec {
	t.Helper()
	out := map[string]certmanagerv1.CertificateSpec{}
	for _, obj := range rendered.Objects {
		if obj.GetKind() == "Certificate" {
			out[obj.GetName()] = typed[*certmanagerv1.Certificate](t, obj).Spec
		}
	}
	return out
}

// A CA only signs, a server certificate is not valid for clients, a client certificate not for servers, and servers
// and clients have different CAs.
func TestCertificatesHaveOnePurpose(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		for name, c := range certificates(t, rendered) {
			server := slices.Contains(c.Usages, certmanagerv1.UsageServerAuth)
			client := slices.Contains(c.Usages, certmanagerv1.UsageClientAuth)
			signs := slices.Contains(c.Usages, certmanagerv1.UsageCertSign)
			purposes := 0
			for _, is := range []bool{server, client, signs} {
				if is {
					purposes++
				}
			}
			if purposes != 1 || signs != c.IsCA {
				t.Errorf("%s is for %v, a CA: %t", name, c.Usages, c.IsCA)
			}
			if client && strings.HasSuffix(c.IssuerRef.Name, "-servers-ca") || server && strings.HasSuffix(c.IssuerRef.Name, "-agents-ca") {
				t.Errorf("%s, for %v, is signed by %s", name, c.Usages, c.IssuerRef.Name)
			}
			if c.PrivateKey.Algorithm != certmanagerv1.ECDSAKeyAlgorithm {
				t.Errorf("%s has a key of %s", name, c.PrivateKey.Algorithm)
			}
			// The key of a CA must stay, because its certificates would become invalid.
			want := certmanagerv1.RotationPolicyAlways
			if c.IsCA {
				want = certmanagerv1.RotationPolicyNever
			}
			if c.PrivateKey.RotationPolicy != want {
				t.Errorf("%s has the rotation policy %s, want %s", name, c.PrivateKey.RotationPolicy, want)
			}
		}
	})
}

func TestCarriedCertificateNamesItsCluster(t *testing.T) {
	rendered := mustRender(t, chartsUnderTest["broker"], chart.Release{Name: "broker", Namespace: namespace},
		`{fullnameOverride: lrb, certificates: {trustDomain: example.com, agents: [{clusterID: rome}]}}`)
	rome := certificates(t, rendered)["lrb-agent-rome"]
	if rome.CommonName != "rome" || rome.SecretName != "lrb-agent-rome" || rome.IssuerRef.Name != "lrb-agents-ca" {
		t.Errorf("the certificate is for %q, in Secret %q, by %q", rome.CommonName, rome.SecretName, rome.IssuerRef.Name)
	}
	if diff := cmp.Diff([]string{"spiffe://example.com/cluster/rome"}, rome.URIs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]certmanagerv1.KeyUsage{certmanagerv1.UsageClientAuth, certmanagerv1.UsageDigitalSignature}, rome.Usages); diff != "" {
		t.Error(diff)
	}
}

// The broker's certificate contains every name that agents use.
func TestBrokerCertificateHasEveryName(t *testing.T) {
	service := []string{"lrb", "lrb." + namespace, "lrb." + namespace + ".svc", "lrb." + namespace + ".svc.cluster.local"}
	tests := map[string]struct {
		values     string
		dnsNames   []string
		ipAdresses []string
	}{
		"within its cluster":      {``, service, nil},
		"by the name of its URL":  {`publicURL: "https://broker.example.com:8443"`, append(slices.Clone(service), "broker.example.com"), nil},
		"by the address of it":    {`publicURL: "https://192.0.2.7:30443"`, service, []string{"192.0.2.7"}},
		"by an address of IPv6":   {`publicURL: "https://[2001:db8::7]:8443"`, service, []string{"2001:db8::7"}},
		"where it enrols":         {`publicURL: "https://b.example.com", enrolmentURL: "https://e.example.com:444"`, append(slices.Clone(service), "b.example.com", "e.example.com"), nil},
		"by what the user says":   {`certificates: {dnsNames: [x.example.com, lrb], ipAddresses: [192.0.2.8]}`, append(slices.Clone(service), "x.example.com"), []string{"192.0.2.8"}},
		"once by a name of two":   {`publicURL: "https://b.example.com", certificates: {dnsNames: [b.example.com]}`, append(slices.Clone(service), "b.example.com"), nil},
		"by a name with a number": {`publicURL: "https://b1.example.com:8443"`, append(slices.Clone(service), "b1.example.com"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := "{fullnameOverride: lrb}"
			if test.values != "" {
				values = "{fullnameOverride: lrb, " + test.values + "}"
			}
			rendered := mustRender(t, chartsUnderTest["broker"], chart.Release{Name: "broker", Namespace: namespace}, values)
			got := certificates(t, rendered)["lrb-tls"]
			if diff := cmp.Diff(test.dnsNames, got.DNSNames); diff != "" {
				t.Errorf("DNS names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.ipAdresses, got.IPAddresses); diff != "" {
				t.Errorf("IP addresses (-want +got):\n%s", diff)
			}
		})
	}
}

// cert-manager finds the certificate whose CA it must write into a webhook.
func TestCAOfWebhooksIsInjectedOrGiven(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		for _, obj := range rendered.Objects {
			if !strings.HasSuffix(obj.GetKind(), "WebhookConfiguration") {
				continue
			}
			webhooks, _ := obj.Object["webhooks"].([]any)
			client, _ := webhooks[0].(map[string]any)["clientConfig"].(map[string]any)
			given := client["caBundle"] != nil
			from, injected := obj.GetAnnotations()["cert-manager.io/inject-ca-from"]
			if given == injected {
				t.Errorf("%s: a CA is given: %t, injected: %t", obj.GetName(), given, injected)
			}
			if !injected {
				continue
			}
			in, name, _ := strings.Cut(from, "/")
			if _, made := certificates(t, rendered)[name]; !made || in != namespace {
				t.Errorf("%s takes its CA from %s, which is not there", obj.GetName(), from)
			}
		}
	})
}

// With crds.keep the CRDs outlive the release, without it they do not.
func TestCRDsAreKept(t *testing.T) {
	for name, c := range chartsUnderTest {
		for values, want := range map[string]string{`{}`: "keep", `{crds: {keep: false}}`: ""} {
			rendered := mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, values)
			if len(rendered.CRDs) == 0 {
				t.Errorf("chart %s installs no kinds", name)
			}
			for _, crd := range rendered.CRDs {
				if got := crd.GetAnnotations()["helm.sh/resource-policy"]; got != want {
					t.Errorf("chart %s with %s: %s has the policy %q, want %q", name, values, crd.GetName(), got, want)
				}
			}
		}
	}
}

// cert-manager's Secrets outlive its Certificates, so the last hook of an uninstall deletes them.
func TestUninstallMayDeleteEveryIssuedSecret(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		deletable := map[string]bool{}
		for _, line := range linesOf(rightsOf(t, rendered)) {
			if _, secrets, found := strings.Cut(line, ": get,delete secrets named "); found && strings.Contains(line, "-uninstall in ") {
				for name := range strings.SplitSeq(secrets, ",") {
					deletable[name] = true
				}
			}
		}
		if len(deletable) == 0 {
			return // the hook of the uninstall deletes nothing, or runs with rights that the user creates
		}
		for _, name := range slices.Sorted(maps.Keys(certificates(t, rendered))) {
			if !deletable[name] {
				t.Errorf("Secret %s stays after an uninstall", name)
			}
		}
	})
}
