package enrolment

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
)

// Application is a cluster's request for its first certificate.
type Application struct {
	ClusterID string
	// Fingerprint is the fingerprint of the key for which the certificate is requested; see
	// pki.SPKIHash.
	Fingerprint string
	// Token is the text of the enrolment token that the cluster presents; "" if it presents none.
	Token string
}

// Outcome is the decision about an application that is not refused.
type Outcome struct {
	// Issue is true if the cluster gets its certificate now. Otherwise it waits for the
	// administrator's approval.
	Issue bool
	// Bind is true if the token must first be recorded as used by this key.
	Bind bool
	// Why says why the cluster waits, and what the administrator can do. It is empty if Issue is
	// true.
	Why string
}

// decideApplication decides whether a cluster gets its first certificate. No other function
// decides this. known is the stored token with the ID of the application's token, nil if there is
// none.
//
// An error does not tell whether the ID or the secret of a token is wrong. That a token has been
// used or has expired is only told to a caller that has the secret.
func decideApplication(policy access.Policy, a Application, known *Token, now time.Time) (Outcome, error) {
	if policy.Denied(a.ClusterID) {
		return Outcome{}, policy.Check(a.ClusterID)
	}
	if a.Token == "" {
		return decideWithoutToken(policy, a), nil
	}
	if err := checkToken(a, known, now); err != nil {
		return Outcome{}, err
	}
	bind := known.UsedBy == ""
	if err := policy.Check(a.ClusterID); err != nil {
		return Outcome{Bind: bind, Why: "its token is valid, but only approved clusters take part: " + approveRemedy}, nil
	}
	return Outcome{Issue: true, Bind: bind}, nil
}

const approveRemedy = "add its cluster ID and key to spec.approvedClusters of the BrokerConfig if they match what its agent logs"

func decideWithoutToken(policy access.Policy, a Application) Outcome {
	if policy.ApprovesKey(a.ClusterID, a.Fingerprint) {
		return Outcome{Issue: true}
	}
	return Outcome{Why: "it has no token and is not approved with this key: " + approveRemedy}
}
