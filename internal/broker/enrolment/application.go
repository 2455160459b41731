package enrolment

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
)

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
// decides this. token is the text of the token that the cluster presents, "" if it presents none.
// known is the stored token with its ID, nil if there is none.
//
// An error does not tell whether the ID or the secret of a token is wrong. That a token has been
// used or has expired is only told to a caller that has the secret.
func decideApplication(policy access.Policy, r *Request, token string, known *Token, now time.Time) (Outcome, error) {
	if policy.Denied(r.ClusterID) {
		return Outcome{}, policy.Check(r.ClusterID)
	}
	if token == "" {
		if policy.ApprovesKey(r.ClusterID, r.Fingerprint) {
			return Outcome{Issue: true}, nil
		}
		return Outcome{Why: "it has no token and is not approved with this key: " + approveRemedy}, nil
	}
	if err := checkToken(r, token, known, now); err != nil {
		return Outcome{}, err
	}
	bind := known.UsedBy == ""
	if err := policy.Check(r.ClusterID); err != nil {
		return Outcome{Bind: bind, Why: "its token is valid, but only approved clusters take part: " + approveRemedy}, nil
	}
	return Outcome{Issue: true, Bind: bind}, nil
}

const approveRemedy = "add its cluster ID and key to spec.approvedClusters of the BrokerConfig if they match what its agent logs"
