package identity

import (
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// EnrolAgain is the remedy for a wrong cluster ID in a certificate that the agent manages itself.
const EnrolAgain = "with --identity-secret, delete that Secret to enrol again"

// CheckClusterID returns an error for a cluster ID that is invalid or differs from Liqo's. An empty ID
// means that the ID is not known yet, and causes no error.
func CheckClusterID(id, liqoID string) error {
	if id == "" {
		return nil
	}
	if !pki.ValidClusterID(id) {
		return fmt.Errorf("cluster ID %q is invalid: use a DNS label of at most %d lower-case characters", id, pki.MaxClusterIDLength)
	}
	if liqoID != "" && liqoID != id {
		return fmt.Errorf("this agent's cluster ID is %q but Liqo's is %q: use Liqo's ID here (%s), or reinstall Liqo with discovery.config.clusterID=%s", id, liqoID, EnrolAgain, id)
	}
	return nil
}
