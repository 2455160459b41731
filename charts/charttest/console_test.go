package charttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
)

// added returns the lines of the second text that the first does not have, and "without LINE" for each line that only
// the first has.
func added(before, after []string) []string {
	out := []string{}
	for _, line := range after {
		if !slices.Contains(before, line) {
			out = append(out, line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			out = append(out, "without "+line)
		}
	}
	slices.Sort(out)
	return out
}

// The console is off by default. Turning it on adds a Service, a certificate, and the right to ask the API server who
// a user is and what that user may list: the console itself reads nothing that its program did not read before.
func TestConsoleAddsOnlyWhatItNeeds(t *testing.T) {
	const tokens, access = "lrb everywhere: create tokenreviews.authentication.k8s.io", "lrb everywhere: create subjectaccessreviews.authorization.k8s.io"
	tests := map[string]struct {
		values          string
		objects, rights map[string][]string
	}{
		"with metrics for everyone": {
			values: `fullnameOverride: lrb, metrics: {secure: false}`,
			objects: map[string][]string{
				"broker": {"Certificate.cert-manager.io liqo-resource-broker lrb-console-tls", "Service liqo-resource-broker lrb-console"},
				"agent":  {"Certificate.cert-manager.io liqo-resource-broker lrb-console-tls", "Service liqo-resource-broker lrb-console"},
			},
			rights: map[string][]string{"broker": {tokens}, "agent": {access, tokens}},
		},
		"with metrics for everyone and without a webhook": {
			values: `fullnameOverride: lrb, metrics: {secure: false}, webhook: {enabled: false}`,
			objects: map[string][]string{
				"broker": {"Certificate.cert-manager.io liqo-resource-broker lrb-console-tls", "Service liqo-resource-broker lrb-console"},
				"agent": {
					"Certificate.cert-manager.io liqo-resource-broker lrb-ca", "Certificate.cert-manager.io liqo-resource-broker lrb-console-tls",
					"Issuer.cert-manager.io liqo-resource-broker lrb-bootstrap", "Issuer.cert-manager.io liqo-resource-broker lrb-ca",
					"Service liqo-resource-broker lrb-console",
				},
			},
			rights: map[string][]string{"broker": {access, tokens}, "agent": {access, tokens}},
		},
		"with a certificate of the user's": {
			values: `fullnameOverride: lrb, certificates: {existing: {console: mine}}`,
			objects: map[string][]string{
				"broker": {"Service liqo-resource-broker lrb-console"},
				"agent":  {"Service liqo-resource-broker lrb-console"},
			},
			rights: map[string][]string{"broker": {}, "agent": {}},
		},
	}
	for name, test := range tests {
		for _, program := range []string{"broker", "agent"} {
			t.Run(program+" "+name, func(t *testing.T) {
				c, release := chartsUnderTest[program], chart.Release{Name: "lrb", Namespace: namespace}
				off := mustRender(t, c, release, `{`+test.values+`}`)
				on := mustRender(t, c, release, `{`+test.values+`, console: {enabled: true}}`)
				if diff := cmp.Diff(test.objects[program], added(identities(off), identities(on))); diff != "" {
					t.Errorf("objects (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(test.rights[program], added(linesOf(rightsOf(t, off)), linesOf(rightsOf(t, on)))); diff != "" {
					t.Errorf("rights (-want +got):\n%s", diff)
				}
				for _, arg := range deploymentOf(t, off).Spec.Template.Spec.Containers[0].Args {
					if strings.HasPrefix(arg, "--console") {
						t.Errorf("the console is off, and the program gets %s", arg)
					}
				}
			})
		}
	}
}

func identities(r *chart.Rendered) []string {
	var out []string
	for _, obj := range allObjects(r) {
		out = append(out, identityOf(obj))
	}
	return out
}

func linesOf(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// With the console on, the program may list and watch every kind that the console shows.
func TestConsoleMayReadWhatItShows(t *testing.T) {
	shown := map[string][]string{
		"broker": {"clusteradvertisements.broker.fluidos.eu", "reservations.broker.fluidos.eu", "brokerconfigs.broker.fluidos.eu"},
		"agent": {
			"resourcerequests.liqo.io", "reservationinstructions.liqo.io", "providerinstructions.liqo.io", "advertisements.liqo.io",
			"lendingpolicies.liqo.io", "nodes",
		},
	}
	values := map[string][]string{"broker": {``}, "agent": {``, `, peeringMode: none`}}
	for program, kinds := range shown {
		for _, more := range values[program] {
			rendered := mustRender(t, chartsUnderTest[program], chart.Release{Name: "lrb", Namespace: namespace}, `{fullnameOverride: lrb, console: {enabled: true}`+more+`}`)
			granted := map[string]bool{}
			for _, line := range linesOf(rightsOf(t, rendered)) {
				right, found := strings.CutPrefix(line, "lrb everywhere: ")
				verbs, resource, _ := strings.Cut(right, " ")
				for verb := range strings.SplitSeq(verbs, ",") {
					granted[verb+" "+resource] = granted[verb+" "+resource] || found
				}
			}
			for _, kind := range kinds {
				if !granted["list "+kind] || !granted["watch "+kind] {
					t.Errorf("the %s%s may not list and watch %s", program, more, kind)
				}
			}
		}
	}
}

// The way from a browser to the console: Service, NetworkPolicy, port, argument and certificate fit together.
func TestConsoleIsReachedAtItsService(t *testing.T) {
	names := []string{"lrb-console", "lrb-console." + namespace, "lrb-console." + namespace + ".svc", "lrb-console." + namespace + ".svc.cluster.local"}
	browsers := []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}}}
	for _, program := range []string{"broker", "agent"} {
		t.Run(program, func(t *testing.T) {
			rendered := mustRender(t, chartsUnderTest[program], chart.Release{Name: "lrb", Namespace: namespace},
				`{fullnameOverride: lrb, webhook: {enabled: false}, metrics: {enabled: false}, console: {enabled: true, actions: true, ingress: {host: console.example.com}, httpRoute: {parentRefs: [{name: web}]}}, networkPolicy: {browsers: [{ipBlock: {cidr: 192.0.2.0/24}}]}}`)
			found := map[string]bool{}
			for _, obj := range rendered.Objects {
				switch {
				case obj.GetKind() == "Service" && obj.GetName() == "lrb-console":
					ports := typed[*corev1.Service](t, obj).Spec.Ports
					found["Service"] = len(ports) == 1 && ports[0].Port == 443 && ports[0].TargetPort.String() == "console"
				case obj.GetKind() == "Ingress":
					backend := typed[*networkingv1.Ingress](t, obj).Spec.Rules[0].HTTP.Paths[0].Backend.Service
					found["Ingress"] = backend.Name == "lrb-console" && backend.Port.Name == "console"
				case obj.GetKind() == "HTTPRoute":
					rules, _, err := unstructured.NestedSlice(obj.Object, "spec", "rules")
					if err != nil {
						t.Fatal(err)
					}
					want := []any{map[string]any{"backendRefs": []any{map[string]any{"name": "lrb-console", "port": int64(443)}}}}
					found["HTTPRoute"] = cmp.Diff(want, rules) == ""
				case obj.GetKind() == "NetworkPolicy":
					for _, rule := range typed[*networkingv1.NetworkPolicy](t, obj).Spec.Ingress {
						if rule.Ports[0].Port.String() == "console" {
							found["NetworkPolicy"] = cmp.Diff(browsers, rule.From) == ""
						}
					}
				}
			}
			container := deploymentOf(t, rendered).Spec.Template.Spec.Containers[0]
			found["port"] = slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == "console" && p.ContainerPort == 8446 })
			found["argument"] = slices.Contains(container.Args, "--console-bind-address=:8446")
			found["certificate"] = cmp.Diff(names, certificates(t, rendered)["lrb-console-tls"].DNSNames) == ""
			found["actions"] = slices.Contains(container.Args, "--console-actions")
			want := map[string]bool{"actions": true, "Ingress": true, "HTTPRoute": true, "Service": true, "NetworkPolicy": true, "port": true, "argument": true, "certificate": true}
			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
