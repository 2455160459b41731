package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// findGap returns the first reason why admission policies are not in force, "" if all are. Each name is that of a
// binding, and of its policy unless NAME=POLICY names another one.
func findGap(ctx context.Context, reader client.Reader, names []string) (string, error) {
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	if err := reader.List(ctx, &policies); err != nil {
		return "", err
	}
	if err := reader.List(ctx, &bindings); err != nil {
		return "", err
	}
	for _, entry := range names {
		name, policy, other := strings.Cut(entry, "=")
		if !other {
			policy = name
		}
		if gap := describeGap(policies.Items, bindings.Items, name, policy); gap != "" {
			return gap, nil
		}
	}
	return "", nil
}

func describeGap(policies []admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding, name, policy string) string {
	p := slices.IndexFunc(policies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == policy })
	b := slices.IndexFunc(bindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool { return b.Name == name })
	switch {
	case p < 0:
		return fmt.Sprintf("ValidatingAdmissionPolicy %q is missing", policy)
	case b < 0:
		return fmt.Sprintf("ValidatingAdmissionPolicyBinding %q is missing", name)
	case policies[p].Spec.FailurePolicy != nil && *policies[p].Spec.FailurePolicy != admissionregistrationv1.Fail:
		return fmt.Sprintf("ValidatingAdmissionPolicy %q has failurePolicy %s instead of Fail", policy, *policies[p].Spec.FailurePolicy)
	case bindings[b].Spec.PolicyName != policy:
		return fmt.Sprintf("ValidatingAdmissionPolicyBinding %q has policyName %q instead of %q", name, bindings[b].Spec.PolicyName, policy)
	case !slices.Contains(bindings[b].Spec.ValidationActions, admissionregistrationv1.Deny):
		return fmt.Sprintf("ValidatingAdmissionPolicyBinding %q has validationActions %v without Deny", name, bindings[b].Spec.ValidationActions)
	}
	return ""
}

// policiesEvery is how long an observation of the policies is reused. One costs two reads.
const policiesEvery = 20 * time.Second

// Policies observes at intervals whether admission policies are in force.
type Policies struct {
	Reader client.Reader
	// Names are those of bindings, each with a policy of its name or as NAME=POLICY.
	Names []string
	Clock clock.PassiveClock

	mu   sync.Mutex // guards the fields below
	next time.Time
	last metav1.Condition
}

// Condition returns the condition Guarded as far as it depends on the policies.
func (w *Policies) Condition(ctx context.Context) *metav1.Condition {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.Clock.Now(); !now.Before(w.next) {
		gap, err := findGap(ctx, w.Reader, w.Names)
		w.next, w.last = now.Add(policiesEvery), observedGuard(gap, err)
	}
	last := w.last
	return &last
}

func observedGuard(gap string, err error) metav1.Condition {
	c := metav1.Condition{Type: agentv1alpha1.ConditionGuarded, Reason: agentv1alpha1.ReasonPolicyMissing}
	switch {
	case err != nil:
		c.Status, c.Message = metav1.ConditionUnknown, "the admission policies could not be read: "+err.Error()
	case gap != "":
		c.Status, c.Message = metav1.ConditionFalse, gap+": other clusters may do here what it forbids; restore it with helm upgrade"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, agentv1alpha1.ReasonGuarded, "admission keeps other clusters to what they reserved here"
	}
	return c
}

// DisabledCondition returns the condition Guarded of an installation without policies or webhooks, nil if it has both.
func DisabledCondition(policies, webhooks bool) *metav1.Condition {
	c := &metav1.Condition{Type: agentv1alpha1.ConditionGuarded, Status: metav1.ConditionFalse}
	switch {
	case !policies:
		c.Reason = agentv1alpha1.ReasonGuardDisabled
		c.Message = "the admission policies for other clusters are off: one that has a reservation here may raise its own quota and reach nodes and other namespaces; set guard.enabled=true in the agent's chart"
	case !webhooks:
		c.Reason = agentv1alpha1.ReasonWebhookDisabled
		c.Message = "the agent's webhook is off: a cluster that has a reservation here may get a certificate of any groups, and its pods beyond the grant or on nodes that are not lent start before they are evicted; set webhook.enabled=true in the agent's chart"
	default:
		return nil
	}
	return c
}
