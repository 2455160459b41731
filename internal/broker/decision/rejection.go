package decision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Reason is why a candidate cannot provide.
type Reason string

// The reasons, in the order of the checks.
const (
	// Self: the candidate is the requester.
	Self Reason = "Self"
	// AlreadyTried: the request excludes the candidate.
	AlreadyTried Reason = "AlreadyTried"
	// Denied: the candidate may not provide, or not to this requester.
	Denied Reason = "Denied"
	// LendingPaused: the candidate's operator has paused lending to all requesters.
	LendingPaused = Reason(lending.LendingPaused)
	// ProviderNotReady: the candidate reports that it cannot peer.
	ProviderNotReady = Reason(lending.ProviderNotReady)
	// ConsumerDenied: the candidate's operator does not lend to this requester.
	ConsumerDenied = Reason(lending.ConsumerDenied)
	// Stale: the candidate has missed advertisements.
	Stale Reason = "Stale"
	// ExceededGrant: the requester has recently and repeatedly exceeded its grants.
	ExceededGrant Reason = "ExceededGrant"
	// Paused: the candidate has recently failed too often to deliver its promises.
	Paused Reason = "Paused"
	// Unreachable: the requester cannot reach the candidate's API server.
	Unreachable Reason = "Unreachable"
	// AffinityNotMet: the reservations named by the request's affinity are on other clusters.
	AffinityNotMet Reason = "AffinityNotMet"
	// AntiAffinityNotMet: a reservation named by an anti-affinity is on this cluster.
	AntiAffinityNotMet Reason = "AntiAffinityNotMet"
	// WrongLocation: the candidate is in another region or zone than the requested one.
	WrongLocation Reason = "WrongLocation"
	// NotIncluded: the request lists the acceptable clusters, and the candidate is not among
	// them.
	NotIncluded Reason = "NotIncluded"
	// Excluded: the request excludes the candidate by a constraint.
	Excluded Reason = "Excluded"
	// LabelsDoNotMatch: the candidate does not have the requested labels.
	LabelsDoNotMatch Reason = "LabelsDoNotMatch"
	// DataElsewhere: the candidate does not have the data set.
	DataElsewhere Reason = "DataElsewhere"
	// ClaimNotMade: the candidate does not make a required claim, or claims less.
	ClaimNotMade Reason = "ClaimNotMade"
	// NeverAdvertised: the candidate does not offer a resource.
	NeverAdvertised Reason = "NeverAdvertised"
	// InsufficientResource: not enough of a resource is free.
	InsufficientResource Reason = "InsufficientResource"
	// NodesDoNotMatch: not enough of a resource is free on the nodes that the request selects and
	// tolerates.
	NodesDoNotMatch Reason = "NodesDoNotMatch"
	// ShapeDoesNotFit: the sums suffice, but the pods do not fit on the nodes.
	ShapeDoesNotFit Reason = "ShapeDoesNotFit"
	// NoPrice: the request sets a highest price, and the candidate's price in that currency is
	// unknown.
	NoPrice Reason = "NoPrice"
	// TooExpensive: the request costs more there than the highest accepted price.
	TooExpensive Reason = "TooExpensive"

	// UnknownCluster: the cluster named to Check is not in the market.
	UnknownCluster Reason = "UnknownCluster"

	// barred stands for the constraint that unmetConstraint finds. It never leaves the package.
	barred Reason = "barred"
	// absent marks a row without a candidate. It never leaves the package.
	absent Reason = "absent"
)

// Rejection is why a candidate cannot provide, with the figures of the failed check.
type Rejection struct {
	Reason Reason
	// Resource is set for NeverAdvertised, InsufficientResource and NodesDoNotMatch.
	Resource corev1.ResourceName
	// Need and Have are base units of Resource; for ShapeDoesNotFit they count pods.
	Need int64
	Have int64
	// Detail describes the unmet condition if Resource does not.
	Detail string
}

// Message describes the rejection for a person.
func (r Rejection) Message() string {
	if r.Detail != "" {
		return r.Detail
	}
	switch r.Reason {
	case Self:
		return "is the requester itself"
	case AlreadyTried:
		return "was tried before for this request"
	case Denied:
		return "does not lend, or not to this requester"
	case Stale:
		return "has stopped advertising"
	case ExceededGrant:
		return "takes nothing new of a requester that ran more than it was granted"
	case Paused:
		return "is paused after failures in a row"
	case Unreachable:
		return "cannot be reached from the requester"
	case NeverAdvertised:
		return fmt.Sprintf("never advertised %s, of which %s is needed",
			r.Resource, quantity.Format(r.Resource, r.Need))
	case InsufficientResource:
		return fmt.Sprintf("has %s of %s free, %s is needed",
			quantity.Format(r.Resource, r.Have), r.Resource, quantity.Format(r.Resource, r.Need))
	case NodesDoNotMatch:
		return fmt.Sprintf("has %s of %s free on the nodes that the request selects and tolerates, %s is needed",
			quantity.Format(r.Resource, r.Have), r.Resource, quantity.Format(r.Resource, r.Need))
	case ShapeDoesNotFit:
		return fmt.Sprintf("has room on its nodes for %d of %d pods", r.Have, r.Need)
	case UnknownCluster:
		return "has not advertised"
	}
	return string(r.Reason)
}
