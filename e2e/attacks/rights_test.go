package attacks

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestRightsOfConsumersAreThoseOfTheTable checks that the table of SECURITY.md lists every right
// that roles of Liqo and Kubernetes give to a consumer's identities, each with a verdict, a guard
// and a test. The API server of a running provider reports the rights of the real identities, in
// each of its namespaces.
func TestRightsOfConsumersAreThoseOfTheTable(t *testing.T) {
	s := open(t)
	got := map[string]bool{}
	namespaces := &corev1.NamespaceList{}
	check(t, s.provider.List(t.Context(), namespaces))
	for who, c := range map[string]*e2e.Cluster{"control plane": s.attacker.plane, "slice": s.attacker.kubelet} {
		for i := range namespaces.Items {
			name := namespaces.Items[i].Name
			for _, right := range rightsIn(t, c, name) {
				got[who+" | "+s.kindOf(name)+" | "+right] = true
			}
		}
	}
	rights := everyoneElsewhere(got)
	page, err := os.ReadFile("../../SECURITY.md")
	check(t, err)
	want, err := tableOf(string(page))
	check(t, err)
	for _, right := range without(rights, want) {
		t.Errorf("SECURITY.md lacks %q: judge it, and add a row with verdict, guard and test", right)
	}
	for _, right := range without(want, rights) {
		t.Errorf("SECURITY.md lists %q, which the provider does not give", right)
	}
}

// without returns the elements of list that the second list does not contain.
func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

// kindOf says what a namespace of the provider is for rome: its tenant namespace, its offloaded namespace, or
// any other.
func (s *scene) kindOf(name string) string {
	switch name {
	case s.attacker.office:
		return "tenant namespace"
	case s.attacker.landing:
		return "offloaded namespace"
	default:
		return "elsewhere"
	}
}

// everyoneElsewhere returns the rights in order. A right that an identity has everywhere appears
// once.
func everyoneElsewhere(got map[string]bool) []string {
	var rights []string
	for right := range got {
		who, rest, _ := strings.Cut(right, " | ")
		_, what, _ := strings.Cut(rest, " | ")
		everywhere := who + " | elsewhere | " + what
		if right != everywhere && got[everywhere] {
			continue
		}
		rights = append(rights, right)
	}
	slices.Sort(rights)
	return rights
}

// rightsIn asks the API server what an identity may do in a namespace.
func rightsIn(t *testing.T, c *e2e.Cluster, namespace string) []string {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	check(t, c.Create(context.Background(), review))
	if review.Status.Incomplete || review.Status.EvaluationError != "" {
		t.Fatalf("rights of %s in %s: incomplete: %s", c.Name, namespace, review.Status.EvaluationError)
	}
	var rights []string
	for _, rule := range review.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, fmt.Sprintf("%s | %s", nameOfResource(resource, group), verb))
				}
			}
		}
	}
	for _, rule := range review.Status.NonResourceRules {
		for _, url := range rule.NonResourceURLs {
			for _, verb := range rule.Verbs {
				rights = append(rights, url+" | "+verb)
			}
		}
	}
	return rights
}

// nameOfResource returns a resource with its group: pods/log, resourceslices.authentication.liqo.io/status.
func nameOfResource(resource, group string) string {
	kind, sub, has := strings.Cut(resource, "/")
	name := strings.TrimSuffix(kind+"."+group, ".")
	if has {
		name += "/" + sub
	}
	return name
}

// tableOf reads the rights that a page lists between its two marks. A row contains an identity, a
// namespace, resources, verbs, a verdict, a guard and a test; "both" stands for either identity.
func tableOf(page string) ([]string, error) {
	const begin, end = "<!-- rights begin -->", "<!-- rights end -->"
	_, rest, found := strings.Cut(page, begin)
	table, _, ended := strings.Cut(rest, end)
	if !found || !ended {
		return nil, fmt.Errorf("the page has no table between %q and %q", begin, end)
	}
	var rights []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) < 2 || cells[0] == "who" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		if len(cells) != 7 || slices.Contains(cells, "") {
			return nil, fmt.Errorf("row %q has %d cells or an empty one, want who, where, what, verbs, verdict, guard and test", line, len(cells))
		}
		rights = append(rights, expand(cells[0], cells[1], cells[2], cells[3])...)
	}
	slices.Sort(rights)
	return rights, nil
}

// expand lists each right of a row.
func expand(who, where, what, verbs string) []string {
	subjects := []string{who}
	if who == "both" {
		subjects = []string{"control plane", "slice"}
	}
	var rights []string
	for _, subject := range subjects {
		for resource := range strings.FieldsSeq(strings.ReplaceAll(strings.ReplaceAll(what, "`", ""), ",", " ")) {
			for verb := range strings.FieldsSeq(strings.ReplaceAll(verbs, ",", " ")) {
				rights = append(rights, subject+" | "+where+" | "+resource+" | "+verb)
			}
		}
	}
	return rights
}

// TestTableOfRightsIsRead checks that a missing or incomplete row is an error.
func TestTableOfRightsIsRead(t *testing.T) {
	const page = `text
<!-- rights begin -->
| who | where | what | verbs | verdict | guard | test |
|---|---|---|---|---|---|---|
| both | elsewhere | ` + "`/api`, `/healthz`" + ` | get | needed | none | none |
| slice | offloaded namespace | ` + "`secrets`" + ` | get, list | needed | a | b |
<!-- rights end -->`
	got, err := tableOf(page)
	check(t, err)
	want := []string{
		"control plane | elsewhere | /api | get", "control plane | elsewhere | /healthz | get",
		"slice | elsewhere | /api | get", "slice | elsewhere | /healthz | get",
		"slice | offloaded namespace | secrets | get", "slice | offloaded namespace | secrets | list",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, broken := range map[string]string{
		"no table":         "text",
		"no test in a row": "<!-- rights begin -->\n| slice | elsewhere | `secrets` | get | needed | a | |\n<!-- rights end -->",
		"too few cells":    "<!-- rights begin -->\n| slice | elsewhere | `secrets` | get |\n<!-- rights end -->",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tableOf(broken); err == nil {
				t.Error("no error")
			}
		})
	}
}
