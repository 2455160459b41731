package charttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// guardedPeers are values of the agent's chart, and whether the webhooks for peers are
// configured with them: for tenant namespaces that the agent made, or everywhere.
var guardedPeers = map[string]struct {
	values     string
	configured bool
	everywhere bool
}{
	"by default":                   {configured: true},
	"where others are guarded too": {values: `{guard: {elsewhere: enforce}}`, configured: true, everywhere: true},
	"where webhooks may be away":   {values: `{webhook: {failurePolicy: Ignore}}`, configured: true},
	"without a webhook":            {values: `{webhook: {enabled: false}}`},
	"without a guard":              {values: `{guard: {enabled: false}}`},
	"where nobody peers":           {values: `{peeringMode: none}`},
}

// The webhooks that change what peers write and decide what is signed for them fail closed,
// and the API server calls them for peers alone.
func TestWebhooksForPeersFailClosedAndAffectOnlyPeers(t *testing.T) {
	c := chartsUnderTest["agent"]
	for name, test := range guardedPeers {
		t.Run(name, func(t *testing.T) {
			hooks := hooksForPeers(t, c, test.values)
			if want := map[bool]int{true: 4}[test.configured]; len(hooks) != want {
				t.Fatalf("%d webhooks, want %d", len(hooks), want)
			}
			for _, hook := range hooks {
				if *hook.FailurePolicy != admissionregistrationv1.Fail || *hook.SideEffects != admissionregistrationv1.SideEffectClassNone {
					t.Errorf("%s: failurePolicy %s, sideEffects %s", hook.Name, *hook.FailurePolicy, *hook.SideEffects)
				}
				if hook.Name == "certificatesigningrequests.liqo.io" {
					wantLiqosRequests(t, hook.ObjectSelector, hook.Rules)
					continue
				}
				if len(hook.MatchConditions) == 0 || hook.MatchConditions[0].Expression != "'liqo.io' in request.userInfo.groups" {
					t.Errorf("%s: asked on these conditions: %+v", hook.Name, hook.MatchConditions)
				}
				if everywhere := hook.NamespaceSelector == nil; everywhere != test.everywhere {
					t.Errorf("%s: namespaces: %+v", hook.Name, hook.NamespaceSelector)
				}
			}
		})
	}
}

// hooksForPeers returns the webhooks about what peers write: one that changes NamespaceMaps,
// one that shortens certificates, and those that check what is signed.
func hooksForPeers(t *testing.T, c tested, values string) []admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	hooks := validatingWebhooks(t, c, values, webhooksForPeers...)
	for _, m := range mutatingWebhooks(t, c, values, "namespacemaps.offloading.liqo.io", "certificatesigningrequests.liqo.io") {
		hooks = append(hooks, admissionregistrationv1.ValidatingWebhook{
			Name: m.Name, Rules: m.Rules, FailurePolicy: m.FailurePolicy, SideEffects: m.SideEffects,
			MatchConditions: m.MatchConditions, NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector,
		})
	}
	return hooks
}

func wantLiqosRequests(t *testing.T, selector *metav1.LabelSelector, rules []admissionregistrationv1.RuleWithOperations) {
	t.Helper()
	want := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: object.RemoteTenantCSRLabel, Operator: metav1.LabelSelectorOpExists}}}
	if diff := cmp.Diff(want, selector); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if len(rules) != 1 || !slices.Equal(rules[0].Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Create}) {
		t.Errorf("rules %+v", rules)
	}
}

// validatingWebhooks returns the validating webhooks with these names, rendered with some values.
func validatingWebhooks(t *testing.T, c tested, values string, names ...string) []admissionregistrationv1.ValidatingWebhook {
	t.Helper()
	var hooks []admissionregistrationv1.ValidatingWebhook
	for _, obj := range mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, values).Objects {
		if obj.GetKind() != "ValidatingWebhookConfiguration" {
			continue
		}
		for _, hook := range typed[*admissionregistrationv1.ValidatingWebhookConfiguration](t, obj).Webhooks {
			if slices.Contains(names, hook.Name) {
				hooks = append(hooks, hook)
			}
		}
	}
	return hooks
}

// The webhook for BurstPolicies exists only with the feature. It comes before the one that would keep its pods off
// virtual nodes, and no pod waits for it.
func TestBurstWebhookBlocksNoPods(t *testing.T) {
	c := chartsUnderTest["agent"]
	names := []string{"burst.pods.liqo.io", "others.pods.liqo.io"}
	if hooks := mutatingWebhooks(t, c, "", names...); len(hooks) != 1 || hooks[0].Name != "others.pods.liqo.io" {
		t.Errorf("%d webhooks by default", len(hooks))
	}
	hooks := mutatingWebhooks(t, c, `{autoscaling: {burstPolicies: {enabled: true}}}`, names...)
	if len(hooks) != 2 || hooks[0].Name != "burst.pods.liqo.io" {
		t.Fatalf("%d webhooks", len(hooks))
	}
	hook := hooks[0]
	if *hook.FailurePolicy != admissionregistrationv1.Ignore {
		t.Errorf("failurePolicy %s", *hook.FailurePolicy)
	}
	if diff := cmp.Diff(map[string]string{"liqo.io/broker-burst": "true"}, hook.NamespaceSelector.MatchLabels); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

// The pods webhook is called for new pods in namespaces that Liqo offloads. In other namespaces it is called for pods
// that tolerate virtual nodes, which may start while it is down.
func TestPodsWebhookBlocksNoOtherPods(t *testing.T) {
	c := chartsUnderTest["agent"]
	for name, test := range map[string]struct {
		values     string
		configured bool
	}{
		"by default":                        {configured: true},
		"whatever other webhooks do":        {values: `{webhook: {failurePolicy: Fail}}`, configured: true},
		"without a guard, which is another": {values: `{guard: {enabled: false}}`, configured: true},
		"without a webhook":                 {values: `{webhook: {enabled: false}}`},
		"without peering":                   {values: `{peeringMode: none}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, other := range mutatingWebhooks(t, c, test.values, "others.pods.liqo.io") {
				if *other.FailurePolicy != admissionregistrationv1.Ignore || len(other.MatchConditions) != 1 || len(other.NamespaceSelector.MatchExpressions) != 2 {
					t.Errorf("pods of other namespaces: %+v", other)
				}
			}
			for _, pinned := range mutatingWebhooks(t, c, test.values, "pinned.pods.liqo.io") {
				if *pinned.FailurePolicy != admissionregistrationv1.Fail || len(pinned.MatchConditions) != 1 || len(pinned.NamespaceSelector.MatchExpressions) != 2 {
					t.Errorf("pods that select a request: %+v", pinned)
				}
			}
			hooks := mutatingWebhooks(t, c, test.values, "pods.liqo.io")
			if configured := len(hooks) == 1; configured != test.configured {
				t.Fatalf("%d webhooks", len(hooks))
			}
			for _, hook := range hooks {
				if *hook.FailurePolicy != admissionregistrationv1.Fail {
					t.Errorf("failurePolicy %s", *hook.FailurePolicy)
				}
				if diff := cmp.Diff(map[string]string{"liqo.io/scheduling-enabled": "true"}, hook.NamespaceSelector.MatchLabels); diff != "" {
					t.Errorf("namespaces (-want +got):\n%s", diff)
				}
				rule := hook.Rules[0]
				if len(hook.Rules) != 1 || !slices.Equal(rule.Resources, []string{"pods"}) ||
					!slices.Equal(rule.Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Create}) {
					t.Errorf("rules %+v", hook.Rules)
				}
			}
		})
	}
}

// The webhook for DaemonSets blocks none, and is called for those of every namespace: providers refuse pods that
// tolerate every taint.
func TestDaemonSetWebhookBlocksNoDaemonSet(t *testing.T) {
	c := chartsUnderTest["agent"]
	for values, want := range map[string]int{"": 1, `{webhook: {failurePolicy: Fail}}`: 1, `{webhook: {enabled: false}}`: 0, `{peeringMode: none}`: 0} {
		hooks := mutatingWebhooks(t, c, values, "daemonsets.liqo.io")
		if len(hooks) != want {
			t.Fatalf("%d webhooks with %q", len(hooks), values)
		}
		for _, hook := range hooks {
			if *hook.FailurePolicy != admissionregistrationv1.Ignore || len(hook.MatchConditions) != 2 {
				t.Errorf("%+v with %q", hook, values)
			}
			if hook.NamespaceSelector != nil {
				t.Errorf("namespaces with %q: %v", values, hook.NamespaceSelector)
			}
		}
	}
}

// The agent reads from this quota which of Liqo's kinds Kubernetes counts.
func TestProbeListsLimitedKindsOfLiqo(t *testing.T) {
	c := chartsUnderTest["agent"]
	byDefault := []string{"count/shadowendpointslices.offloading.liqo.io", "count/shadowpods.offloading.liqo.io"}
	for name, test := range map[string]struct {
		values string
		want   []string
	}{
		"by default":                    {want: byDefault},
		"with a kind of tenants":        {values: `{guard: {limits: {tenant: {count/renews.authentication.liqo.io: 4, count/secrets: 9}}}}`, want: append([]string{"count/renews.authentication.liqo.io"}, byDefault...)},
		"with one of them removed":      {values: `{guard: {limits: {offloaded: {count/shadowpods.offloading.liqo.io: null}}}}`, want: byDefault[:1]},
		"without a kind of Liqo":        {values: `{guard: {limits: {offloaded: {count/shadowpods.offloading.liqo.io: null, count/shadowendpointslices.offloading.liqo.io: null}}}}`},
		"without a guard, nor a quota":  {values: `{guard: {enabled: false}}`},
		"where nobody peers, nor there": {values: `{peeringMode: none}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			rendered := mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, test.values)
			for _, obj := range rendered.Objects {
				if obj.GetKind() != "ResourceQuota" {
					continue
				}
				quota := typed[*corev1.ResourceQuota](t, obj)
				args := deploymentOf(t, rendered).Spec.Template.Spec.Containers[0].Args
				if !slices.Contains(args, "--object-limits-probe="+quota.Name) || quota.Namespace != namespace {
					t.Errorf("the agent does not read the probe %s/%s: %q", quota.Namespace, quota.Name, args)
				}
				for kind := range quota.Spec.Hard {
					got = append(got, string(kind))
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// guard.elsewhere decides what peers may do in tenant namespaces that the agent did not make.
func TestGuardInAnotherNamespace(t *testing.T) {
	c := chartsUnderTest["agent"]
	for name, test := range map[string]struct {
		values string
		want   []admissionregistrationv1.ValidationAction
	}{
		"it is noted by default":                {want: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}},
		"it is noted if told so":                {values: `{guard: {elsewhere: audit}}`, want: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}},
		"it is refused if told so":              {values: `{guard: {elsewhere: enforce}}`, want: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
		"nothing happens where it is off":       {values: `{guard: {elsewhere: "off"}}`},
		"nor where YAML makes a switch of that": {values: `{guard: {elsewhere: off}}`},
		"nor without a guard":                   {values: `{guard: {enabled: false, elsewhere: enforce}}`},
	} {
		t.Run(name, func(t *testing.T) {
			release := chart.Release{Name: c.release, Namespace: namespace}
			var got []admissionregistrationv1.ValidationAction
			for _, obj := range mustRender(t, c, release, test.values).Objects {
				if obj.GetKind() == "ValidatingAdmissionPolicyBinding" && strings.HasSuffix(obj.GetName(), "-peers-elsewhere") {
					got = typed[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, obj).Spec.ValidationActions
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// Condition Guarded depends on every binding that denies, and on its policy.
func TestAgentObservesEveryPolicy(t *testing.T) {
	c := chartsUnderTest["agent"]
	for _, values := range []string{
		"", `{guard: {elsewhere: enforce}}`, `{guard: {elsewhere: off}}`, `{guard: {podSecurity: off}}`, `{guard: {enabled: false}}`,
		`{webhook: {enabled: false}}`, `{peeringMode: none}`,
	} {
		rendered := mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, values)
		var want, policies, bound []string
		for _, obj := range rendered.Objects {
			switch obj.GetKind() {
			case "ValidatingAdmissionPolicy":
				policies = append(policies, obj.GetName())
			case "ValidatingAdmissionPolicyBinding":
				spec := typed[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, obj).Spec
				if !slices.Contains(spec.ValidationActions, admissionregistrationv1.Deny) {
					continue
				}
				entry := obj.GetName()
				if spec.PolicyName != entry {
					entry += "=" + spec.PolicyName
				}
				want, bound = append(want, entry), append(bound, spec.PolicyName)
			}
		}
		var got []string
		for _, arg := range deploymentOf(t, rendered).Spec.Template.Spec.Containers[0].Args {
			if names, found := strings.CutPrefix(arg, "--guard-policies="); found {
				got = strings.Split(names, ",")
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with %q, observed policies (-want +got):\n%s", values, diff)
		}
		slices.Sort(policies)
		slices.Sort(bound)
		if diff := cmp.Diff(policies, slices.Compact(bound)); diff != "" {
			t.Errorf("with %q, policies (-installed +bound):\n%s", values, diff)
		}
	}
}

// guard.names decides which names a peer's namespaces may have in this cluster.
func TestGuardOfNamespaceNames(t *testing.T) {
	c := chartsUnderTest["agent"]
	const own = "object.spec.desiredMapping.all(k, size(k) <= 63 && (object.spec.desiredMapping[k] == k + '-' + request.userInfo.username"
	for name, test := range map[string]struct{ values, want string }{
		"their own by default":      {want: own + "))"},
		"the same, where it is let": {values: `{guard: {sameNames: [shop, web]}}`, want: own + ` || object.spec.desiredMapping[k] == k && k in ["shop","web"]))`},
	} {
		t.Run(name, func(t *testing.T) {
			release := chart.Release{Name: c.release, Namespace: namespace}
			for _, obj := range mustRender(t, c, release, test.values).Objects {
				if obj.GetKind() != "ValidatingAdmissionPolicy" || !strings.HasSuffix(obj.GetName(), "-peers") {
					continue
				}
				for _, v := range typed[*admissionregistrationv1.ValidatingAdmissionPolicy](t, obj).Spec.Validations {
					if strings.HasSuffix(strings.TrimSpace(v.Expression), test.want) {
						return
					}
				}
			}
			t.Errorf("no rule ends with %s", test.want)
		})
	}
}

// mutatingWebhooks returns the mutating webhooks of these names, rendered with some values.
func mutatingWebhooks(t *testing.T, c tested, values string, names ...string) []admissionregistrationv1.MutatingWebhook {
	t.Helper()
	var hooks []admissionregistrationv1.MutatingWebhook
	for _, obj := range mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, values).Objects {
		if obj.GetKind() != "MutatingWebhookConfiguration" {
			continue
		}
		for _, hook := range typed[*admissionregistrationv1.MutatingWebhookConfiguration](t, obj).Webhooks {
			if slices.Contains(names, hook.Name) {
				hooks = append(hooks, hook)
			}
		}
	}
	return hooks
}
