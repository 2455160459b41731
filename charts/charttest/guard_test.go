package charttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// The mutating webhook is called only for writes of peers. Other writes do not depend on it, and peers cannot bypass
// it while it is down.
func TestMutatingWebhookIsCalledOnlyForPeers(t *testing.T) {
	c := chartsUnderTest["agent"]
	for name, test := range map[string]struct {
		values     string
		configured bool
		everywhere bool
	}{
		"by default":                   {configured: true},
		"where others are guarded too": {values: `{guard: {elsewhere: enforce}}`, configured: true, everywhere: true},
		"by the earlier name":          {values: `{guard: {elsewhere: Deny}}`, configured: true, everywhere: true},
		"where webhooks may be away":   {values: `{webhook: {failurePolicy: Ignore}}`, configured: true},
		"without a webhook":            {values: `{webhook: {enabled: false}}`},
		"without a guard":              {values: `{guard: {enabled: false}}`},
		"without peering":              {values: `{peeringMode: none}`},
	} {
		t.Run(name, func(t *testing.T) {
			hooks := mutatingWebhooks(t, c, test.values, "namespacemaps.offloading.liqo.io")
			if configured := len(hooks) == 1; configured != test.configured {
				t.Fatalf("%d webhooks", len(hooks))
			}
			for _, hook := range hooks {
				if *hook.FailurePolicy != admissionregistrationv1.Fail || *hook.SideEffects != admissionregistrationv1.SideEffectClassNone {
					t.Errorf("failurePolicy %s, sideEffects %s", *hook.FailurePolicy, *hook.SideEffects)
				}
				if len(hook.MatchConditions) == 0 || hook.MatchConditions[0].Expression != "'liqo.io' in request.userInfo.groups" {
					t.Errorf("asked on these conditions: %+v", hook.MatchConditions)
				}
				if everywhere := hook.NamespaceSelector == nil; everywhere != test.everywhere {
					t.Errorf("namespaces: %+v", hook.NamespaceSelector)
				}
			}
		})
	}
}

// The webhooks that decide on signing requests fail closed, and only for peers: other signing requests do not depend
// on them.
func TestSigningWebhooksAreCalledOnlyForPeers(t *testing.T) {
	c := chartsUnderTest["agent"]
	for name, test := range map[string]struct {
		values     string
		configured bool
		everywhere bool
	}{
		"by default":                   {configured: true},
		"where others are guarded too": {values: `{guard: {elsewhere: enforce}}`, configured: true, everywhere: true},
		"where webhooks may be away":   {values: `{webhook: {failurePolicy: Ignore}}`, configured: true},
		"without a webhook":            {values: `{webhook: {enabled: false}}`},
		"without a guard":              {values: `{guard: {enabled: false}}`},
		"without peering":              {values: `{peeringMode: none}`},
	} {
		t.Run(name, func(t *testing.T) {
			hooks := validatingWebhooks(t, c, test.values, webhooksForPeers...)
			if configured := len(hooks) == len(webhooksForPeers); configured != test.configured || !configured && len(hooks) > 0 {
				t.Fatalf("%d webhooks", len(hooks))
			}
			for _, hook := range hooks {
				if *hook.FailurePolicy != admissionregistrationv1.Fail || *hook.SideEffects != admissionregistrationv1.SideEffectClassNone {
					t.Errorf("%s: failurePolicy %s, sideEffects %s", hook.Name, *hook.FailurePolicy, *hook.SideEffects)
				}
				if hook.Name == "certificatesigningrequests.liqo.io" {
					wantLiqosRequests(t, hook.ObjectSelector, hook.Rules)
					continue
				}
				if hook.MatchConditions[0].Expression != "'liqo.io' in request.userInfo.groups" {
					t.Errorf("asked on these conditions: %+v", hook.MatchConditions)
				}
				if everywhere := hook.NamespaceSelector == nil; everywhere != test.everywhere {
					t.Errorf("namespaces: %+v", hook.NamespaceSelector)
				}
			}
			for _, hook := range mutatingWebhooks(t, c, test.values, "certificatesigningrequests.liqo.io") {
				if *hook.FailurePolicy != admissionregistrationv1.Fail {
					t.Errorf("the lifetime may be skipped: failurePolicy %s", *hook.FailurePolicy)
				}
				wantLiqosRequests(t, hook.ObjectSelector, hook.Rules)
			}
		})
	}
}

func wantLiqosRequests(t *testing.T, selector *metav1.LabelSelector, rules []admissionregistrationv1.RuleWithOperations) {
	t.Helper()
	want := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: liqo.RemoteTenantCSRLabel, Operator: metav1.LabelSelectorOpExists}}}
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

// guard.elsewhere decides what peers may do in tenant namespaces that the agent did not create.
func TestGuardElsewhereActions(t *testing.T) {
	c := chartsUnderTest["agent"]
	for name, test := range map[string]struct {
		values string
		want   []admissionregistrationv1.ValidationAction
	}{
		"it is noted by default":                {want: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}},
		"it is noted if told so":                {values: `{guard: {elsewhere: audit}}`, want: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}},
		"it is noted, by the earlier name":      {values: `{guard: {elsewhere: Audit}}`, want: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}},
		"it is refused if told so":              {values: `{guard: {elsewhere: enforce}}`, want: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
		"it is refused, by the earlier name":    {values: `{guard: {elsewhere: Deny}}`, want: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
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

// mutatingWebhooks returns the mutating webhooks with a name, rendered with some values.
func mutatingWebhooks(t *testing.T, c tested, values, name string) []admissionregistrationv1.MutatingWebhook {
	t.Helper()
	var hooks []admissionregistrationv1.MutatingWebhook
	for _, obj := range mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, values).Objects {
		if obj.GetKind() != "MutatingWebhookConfiguration" {
			continue
		}
		for _, hook := range typed[*admissionregistrationv1.MutatingWebhookConfiguration](t, obj).Webhooks {
			if hook.Name == name {
				hooks = append(hooks, hook)
			}
		}
	}
	return hooks
}
