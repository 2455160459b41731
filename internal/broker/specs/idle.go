package specs

import (
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
)

// readIdle returns the idle policy in the spec. A time below requests.ShortestIdle is raised to it.
func readIdle(idle *brokerv1alpha1.Idle) *ledger.IdlePolicy {
	return &ledger.IdlePolicy{After: max(idle.After.Duration, requests.ShortestIdle), Release: idle.Action == brokerv1alpha1.IdleRelease}
}
