package enrolment

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Application is who asks for a first certificate, and with what.
type Application struct {
	ClusterID string
	// Fingerprint of its key. The request was signed with it.
	Fingerprint string
	// Token is what was shown, "" for none.
	Token string
}

// Outcome is what follows from an application that is not refused.
type Outcome struct {
	// Issue says that the cluster gets its certificate; else it waits for approval.
	Issue bool
	// Bind says that the token must be bound to the key first.
	Bind bool
	// Why the cluster waits, and what an administrator can do.
	Why string
}

// decide is the only way to a certificate of a cluster that has none. known is the
// token that the application's ID names, nil if there is no such token.
//
// A refusal does not tell a wrong secret from an unknown ID, and says that a token
// is used or expired only to who has the secret.
func decide(policy access.Policy, a Application, known *Token, now time.Time) (Outcome, error) {
	if policy.Denied(a.ClusterID) {
		return Outcome{}, policy.Check(a.ClusterID)
	}
	if a.Token == "" {
		return withoutToken(policy, a), nil
	}
	if err := checkToken(a, known, now); err != nil {
		return Outcome{}, err
	}
	bind := known.UsedBy == ""
	if err := policy.Check(a.ClusterID); err != nil {
		return Outcome{Bind: bind, Why: "its token is good, but only approved clusters take part: " + approveRemedy}, nil
	}
	return Outcome{Issue: true, Bind: bind}, nil
}

const approveRemedy = "add its cluster ID and key to spec.approvedClusters of the BrokerConfig if they are those that its agent logs"

func withoutToken(policy access.Policy, a Application) Outcome {
	if policy.ApprovesKey(a.ClusterID, a.Fingerprint) {
		return Outcome{Issue: true}
	}
	return Outcome{Why: "it has no token, and is not approved with this key: " + approveRemedy}
}

func checkToken(a Application, known *Token, now time.Time) error {
	switch {
	case known == nil || !known.fits(a.Token) || known.ClusterID != a.ClusterID:
		return fault.New(fault.TokenInvalid, "the token is none of cluster %q: make one with broker enrol %s", a.ClusterID, a.ClusterID)
	case !now.Before(known.Expires):
		return fault.New(fault.TokenExpired, "the token of cluster %q expired at %s: make another with broker enrol %s",
			a.ClusterID, known.Expires.UTC().Format(time.RFC3339), a.ClusterID)
	case known.UsedBy != "" && known.UsedBy != a.Fingerprint:
		return fault.New(fault.TokenUsed,
			"the token of cluster %q was used with another key, %s: if that key is not this cluster's, deny the cluster; else make another token with broker enrol %s",
			a.ClusterID, known.UsedBy, a.ClusterID)
	}
	return nil
}
