package enrolment

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
)

// Application is a request for a first certificate.
type Application struct {
	ClusterID string
	// Fingerprint of the key that signed the request.
	Fingerprint string
	// Token as presented; "" for none.
	Token string
}

// Outcome is the answer to an application that is not refused.
type Outcome struct {
	// Issue says that the cluster gets its certificate; otherwise it waits for approval.
	Issue bool
	// Bind says that the token must first be bound to the key.
	Bind bool
	// Why says why the cluster waits, and what an administrator can do.
	Why string
}

// decideApplication is the only way to a first certificate. known is the token with the ID of the
// application's token, or nil.
//
// A refusal does not distinguish a wrong secret from an unknown ID. It reveals that a token is
// used or expired only to a caller that has the secret.
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
