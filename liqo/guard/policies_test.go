package guard

import (
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestConditionNamesDisabledGuardAndRemedy(t *testing.T) {
	for name, test := range map[string]struct {
		policies, webhooks bool
		reason, remedy     string
	}{
		"the webhook is off":    {true, false, agentv1alpha1.ReasonWebhookDisabled, "set webhook.enabled=true"},
		"the policies are off":  {false, true, agentv1alpha1.ReasonGuardDisabled, "set guard.enabled=true"},
		"everything is off too": {false, false, agentv1alpha1.ReasonGuardDisabled, "set guard.enabled=true"},
	} {
		c := DisabledCondition(test.policies, test.webhooks)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != test.reason || !strings.Contains(c.Message, test.remedy) {
			t.Errorf("%s: condition %+v", name, c)
		}
	}
	if c := DisabledCondition(true, true); c != nil {
		t.Errorf("all are on: condition %+v", c)
	}
}

func policyNamed(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.FailurePolicy = new(admissionregistrationv1.Fail)
	return p
}

func bindingOf(name, policy string, actions ...admissionregistrationv1.ValidationAction) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.PolicyName, b.Spec.ValidationActions = policy, actions
	return b
}

func TestGuardedObservesEveryPolicyAndBinding(t *testing.T) {
	const deny = admissionregistrationv1.Deny
	ignoring := policyNamed("a-pods")
	ignoring.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
	for name, test := range map[string]struct {
		pods, rest client.Object
		policy     client.Object
		want       string
	}{
		"all in force":       {policy: policyNamed("a-pods"), pods: bindingOf("a-pods", "a-pods", deny), rest: bindingOf("a-pods-rest", "a-pods", deny)},
		"a deleted policy":   {pods: bindingOf("a-pods", "a-pods", deny), rest: bindingOf("a-pods-rest", "a-pods", deny), want: `ValidatingAdmissionPolicy "a-pods" is missing`},
		"a deleted binding":  {policy: policyNamed("a-pods"), pods: bindingOf("a-pods", "a-pods", deny), want: `ValidatingAdmissionPolicyBinding "a-pods-rest" is missing`},
		"a binding to audit": {policy: policyNamed("a-pods"), pods: bindingOf("a-pods", "a-pods", "Audit"), rest: bindingOf("a-pods-rest", "a-pods", deny), want: "validationActions [Audit] without Deny"},
		"a binding of another policy": {policy: policyNamed("a-pods"), pods: bindingOf("a-pods", "a", deny), rest: bindingOf("a-pods-rest", "a-pods", deny),
			want: `has policyName "a" instead of "a-pods"`},
		"a policy that fails open": {policy: ignoring, pods: bindingOf("a-pods", "a-pods", deny), rest: bindingOf("a-pods-rest", "a-pods", deny), want: "failurePolicy Ignore instead of Fail"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			for _, obj := range []client.Object{test.policy, test.pods, test.rest} {
				if obj != nil {
					builder.WithObjects(obj)
				}
			}
			w := &Policies{Reader: builder.Build(), Names: []string{"a-pods", "a-pods-rest=a-pods"}, Clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))}
			c := w.Condition(t.Context())
			if !strings.Contains(c.Message, test.want) || (c.Status == metav1.ConditionTrue) != (test.want == "") {
				t.Errorf("condition %+v, want %q", c, test.want)
			}
		})
	}
	if c := observedGuard("", errors.New("timeout")); c.Status != metav1.ConditionUnknown || !strings.Contains(c.Message, "timeout") {
		t.Errorf("unread policies: condition %+v", c)
	}
}

// An observation is reused for a while, and then replaced.
func TestGuardedNoticesDeletedPolicies(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	c := fake.NewClientBuilder().WithObjects(policyNamed("a"), bindingOf("a", "a", admissionregistrationv1.Deny)).Build()
	w := &Policies{Reader: c, Names: []string{"a"}, Clock: clock}
	if got := w.Condition(t.Context()); got.Status != metav1.ConditionTrue {
		t.Fatalf("condition %+v", got)
	}
	runtest.Check(t, c.Delete(t.Context(), policyNamed("a")))
	clock.SetTime(clock.Now().Add(policiesEvery))
	if got := w.Condition(t.Context()); got.Status != metav1.ConditionFalse {
		t.Errorf("after its deletion: condition %+v", got)
	}
}
