package identity

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Condition returns the condition CertificateValid, which describes the certificate c. invalid is
// the reason why there is no valid certificate, or nil. trouble is the reason why the certificate
// could not be replaced, or nil. The message changes only if the certificate or one of these errors
// changes.
func Condition(c *pki.Credentials, invalid, trouble error, now time.Time) metav1.Condition {
	condition := metav1.Condition{Type: agentv1alpha1.ConditionCertificateValid, Status: metav1.ConditionTrue}
	if invalid != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, agentv1alpha1.ReasonCertificateInvalid, invalid.Error()
		if trouble != nil {
			condition.Message += ": " + trouble.Error()
		}
		return condition
	}
	leaf := c.Certificate.Leaf
	expires := leaf.NotAfter.UTC().Format(time.RFC3339)
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	switch {
	case trouble != nil:
		condition.Reason = agentv1alpha1.ReasonRenewalFailing
		condition.Message = fmt.Sprintf("valid until %s, but renewal fails: %v", expires, trouble)
	// The certificate expires soon. An automatic renewal begins after two thirds of the lifetime and
	// would have finished by now.
	case now.After(leaf.NotAfter.Add(-life / 6)):
		condition.Reason = agentv1alpha1.ReasonCertificateExpiring
		condition.Message = fmt.Sprintf("valid until %s and not renewed yet: replace the files in --broker-cert-path", expires)
	default:
		condition.Reason = agentv1alpha1.ReasonCertificateValid
		condition.Message = fmt.Sprintf("valid until %s", expires)
	}
	return condition
}
