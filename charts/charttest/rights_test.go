package charttest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var update = flag.Bool("update", false, "write the lists of rights in testdata")

// rightsOf returns the rights in a rendered chart, one per line: the subject, the verbs, the resource and the
// namespace.
func rightsOf(t *testing.T, rendered *chart.Rendered) string {
	t.Helper()
	rules, holders := map[string][]rbacv1.PolicyRule{}, map[string][]string{}
	for _, obj := range allObjects(rendered) {
		where := "everywhere"
		if obj.GetNamespace() != "" {
			where = "in " + obj.GetNamespace()
		}
		switch obj.GetKind() {
		case "Role":
			rules[where+" "+obj.GetName()] = typed[*rbacv1.Role](t, obj).Rules
		case "ClusterRole":
			role := typed[*rbacv1.ClusterRole](t, obj)
			rules[where+" "+obj.GetName()] = role.Rules
			for label := range role.Labels {
				if to, aggregated := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); aggregated {
					holders[where+" "+obj.GetName()] = append(holders[where+" "+obj.GetName()], "users with the role "+to)
				}
			}
		case "RoleBinding":
			b := typed[*rbacv1.RoleBinding](t, obj)
			holders[where+" "+b.RoleRef.Name] = append(holders[where+" "+b.RoleRef.Name], b.Subjects[0].Name)
		case "ClusterRoleBinding":
			b := typed[*rbacv1.ClusterRoleBinding](t, obj)
			holders[where+" "+b.RoleRef.Name] = append(holders[where+" "+b.RoleRef.Name], b.Subjects[0].Name)
		}
	}
	lines := map[string]bool{}
	for role, granted := range rules {
		who := holders[role]
		if len(who) == 0 {
			who = []string{"unbound (" + role + ")"}
		}
		for _, w := range who {
			for _, line := range rightLines(granted) {
				where, _, _ := strings.Cut(role, " lrb")
				lines[w+" "+where+": "+line] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n") + "\n"
}

func rightLines(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, rule := range rules {
		verbs := strings.Join(rule.Verbs, ",")
		for _, url := range rule.NonResourceURLs {
			out = append(out, verbs+" "+url)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if group != "" {
					resource += "." + group
				}
				names := ""
				if len(rule.ResourceNames) > 0 {
					names = fmt.Sprintf(" named %s", strings.Join(rule.ResourceNames, ","))
				}
				out = append(out, verbs+" "+resource+names)
			}
		}
	}
	return out
}

// everything turns on all features that need rights of their own.
var everything = map[string]string{
	"broker": `{fullnameOverride: lrb, console: {enabled: true}, brokerConfig: {defaultTTL: 2h}, mailboxes: {clusters: [{clusterID: rome}]}}`,
	"agent":  `{fullnameOverride: lrb, console: {enabled: true}, autoscaling: {provisioningRequests: {enabled: true}, capacityBuffers: {enabled: true}, burstPolicies: {enabled: true}}}`,
}

// The lists in testdata were reviewed by a person: every change of a right is a change of the list.
func TestReviewedRightsAreUpToDate(t *testing.T) {
	for name, c := range chartsUnderTest {
		t.Run(name, func(t *testing.T) {
			rendered := mustRender(t, c, chart.Release{Name: "lrb", Namespace: namespace}, everything[name])
			got := rightsOf(t, rendered)
			golden := filepath.Join("testdata", "rights-"+name+".txt")
			if *update {
				runtest.Check(t, os.WriteFile(golden, []byte(got), 0o644))
				return
			}
			want, err := os.ReadFile(golden)
			runtest.Check(t, err)
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("rights differ from %s; if that is intended, run the test with -update (-reviewed +rendered):\n%s", golden, diff)
			}
		})
	}
}

// bounded are rights of the agent that RBAC cannot restrict to the required names or namespaces. An admission policy
// on the resource restricts each of them: charts/agent/templates/guard/agent-policy.yaml and bindings-policy.yaml.
var bounded = map[string]string{
	"delete secrets": "secrets",
	"get,list,watch,update rolebindings.rbac.authorization.k8s.io":                  "rolebindings",
	"bind clusterroles.rbac.authorization.k8s.io named liqo-virtual-kubelet-remote": "rolebindings",
}

// boundsAgent reports whether a policy on a resource is rendered for the agent's account.
func boundsAgent(rendered *chart.Rendered, resource string) bool {
	return slices.ContainsFunc(rendered.Objects, func(obj *unstructured.Unstructured) bool {
		text, err := obj.MarshalJSON()
		return err == nil && obj.GetKind() == "ValidatingAdmissionPolicy" &&
			strings.Contains(string(text), `"the-agent"`) && strings.Contains(string(text), `"`+resource+`"`)
	})
}

// These rules hold independently of the reviewed lists.
func TestRightsAreNeverExcessive(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		for line := range strings.Lines(rightsOf(t, rendered)) {
			who, right, _ := strings.Cut(strings.TrimSpace(line), ": ")
			verbs, what, _ := strings.Cut(right, " ")
			resource, named, _ := strings.Cut(what, " named ")
			if resource, found := bounded[right]; found && boundsAgent(rendered, resource) {
				continue
			}
			switch {
			case strings.Contains(right, "*"):
				t.Errorf("a wildcard: %s", line)
			case resource == "secrets" && named == "" && verbs != "create":
				t.Errorf("Secrets without a name: %s", line)
			case strings.Contains(resource, "/status") && strings.HasPrefix(who, "users"):
				t.Errorf("a right to write a status: %s", line)
			case strings.Contains(resource, "rbac.authorization.k8s.io"), resource == "pods/exec":
				t.Errorf("a right to gain rights: %s", line)
			}
		}
	})
}

// The chart grants the rights that the markers in the code require.
func TestRightsCoverTheMarkersInTheCode(t *testing.T) {
	folders := map[string][]string{
		"broker": {"controllers/broker/brokerconfig", "controllers/broker/clusteradvertisement", "controllers/broker/reservation", "webhooks/broker"},
		"agent":  {"controllers/agent/advertisement", "controllers/agent/burstpolicy", "controllers/agent/provisioningrequest", "controllers/agent/resourcequota", "controllers/agent/resourcerequest", "webhooks/agent"},
	}
	for name, c := range chartsUnderTest {
		t.Run(name, func(t *testing.T) {
			rendered := mustRender(t, c, chart.Release{Name: "lrb", Namespace: namespace}, everything[name])
			granted := map[string]bool{}
			for line := range strings.Lines(rightsOf(t, rendered)) {
				who, right, _ := strings.Cut(strings.TrimSpace(line), ": ")
				verbs, what, _ := strings.Cut(right, " ")
				if strings.HasPrefix(who, "lrb everywhere") {
					for verb := range strings.SplitSeq(verbs, ",") {
						granted[verb+" "+what] = true
					}
				}
			}
			for _, folder := range folders[name] {
				for _, need := range readMarkers(t, filepath.Join("..", "..", folder)) {
					if !granted[need] {
						t.Errorf("%s needs %q, which the chart does not grant", folder, need)
					}
				}
			}
		})
	}
}

// readMarkers returns the rights in the +kubebuilder:rbac comments of a package.
func readMarkers(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %q: %v", folder, err)
	}
	var out []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		runtest.Check(t, err)
		for line := range strings.Lines(string(text)) {
			_, marker, found := strings.Cut(strings.TrimSpace(line), "+kubebuilder:rbac:")
			if !found {
				continue
			}
			fields := map[string][]string{}
			for field := range strings.SplitSeq(marker, ",") {
				key, value, _ := strings.Cut(field, "=")
				fields[key] = strings.Split(strings.Trim(value, `"`), ";")
			}
			for _, group := range fields["groups"] {
				for _, resource := range fields["resources"] {
					if group != "" {
						resource += "." + group
					}
					for _, verb := range fields["verbs"] {
						out = append(out, verb+" "+resource)
					}
				}
			}
		}
	}
	return out
}
