package decision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Reason is why a candidate cannot provide.
type Reason string

// The reasons, in the order in which they are checked.
const (
	// Self: the candidate is the requester.
	Self Reason = "Self"
	// AlreadyTried: the request excludes the candidate.
	AlreadyTried Reason = "AlreadyTried"
	// Denied: the candidate may not provide, or not to this requester.
	Denied Reason = "Denied"
	// LendingPaused: the candidate's operator lets nobody come.
	LendingPaused = Reason(lending.LendingPaused)
	// ConsumerDenied: the candidate's operator does not let this requester come.
	ConsumerDenied = Reason(lending.ConsumerDenied)
	// Stale: the candidate has missed advertisements.
	Stale Reason = "Stale"
	// ExceededGrant: the requester ran more than it was granted, lately and repeatedly.
	ExceededGrant Reason = "ExceededGrant"
	// Paused: the candidate failed too often, lately, to deliver what it promised.
	Paused Reason = "Paused"
	// Unreachable: the requester cannot reach the candidate's API server.
	Unreachable Reason = "Unreachable"
	// AffinityNotMet: the requester's reservations to be near to are elsewhere.
	AffinityNotMet Reason = "AffinityNotMet"
	// AntiAffinityNotMet: a reservation to be apart from is here.
	AntiAffinityNotMet Reason = "AntiAffinityNotMet"
	// WrongLocation: the candidate is in another region or zone than asked for.
	WrongLocation Reason = "WrongLocation"
	// NotIncluded: the request names the clusters that it wants, and not this one.
	NotIncluded Reason = "NotIncluded"
	// Excluded: the request does not want the candidate.
	Excluded Reason = "Excluded"
	// LabelsDoNotMatch: the candidate's labels are not those asked for.
	LabelsDoNotMatch Reason = "LabelsDoNotMatch"
	// DataElsewhere: the candidate does not have the data set.
	DataElsewhere Reason = "DataElsewhere"
	// ClaimNotMade: the candidate does not claim what is required, or less of it.
	ClaimNotMade Reason = "ClaimNotMade"
	// NeverAdvertised: the candidate does not offer a resource at all.
	NeverAdvertised Reason = "NeverAdvertised"
	// InsufficientResource: not enough of a resource is free.
	InsufficientResource Reason = "InsufficientResource"
	// NodesDoNotMatch: not enough of a resource is free on the nodes asked for.
	NodesDoNotMatch Reason = "NodesDoNotMatch"
	// ShapeDoesNotFit: the sums suffice, but the pods do not fit on the nodes.
	ShapeDoesNotFit Reason = "ShapeDoesNotFit"
	// NoPrice: a highest price is set, and the candidate's is not known in its currency.
	NoPrice Reason = "NoPrice"
	// TooExpensive: the request costs more there than the highest price accepted.
	TooExpensive Reason = "TooExpensive"

	// UnknownCluster: the cluster named to Check is not in the market.
	UnknownCluster Reason = "UnknownCluster"

	// barred stands for the constraint that unmet names; it never leaves the package.
	barred Reason = "barred"
	// absent marks a row without a candidate; it never leaves the package.
	absent Reason = "absent"
)

// Rejection is why a candidate cannot provide, with the dimension that failed.
type Rejection struct {
	Reason Reason
	// Resource is set for NeverAdvertised, InsufficientResource and NodesDoNotMatch.
	Resource corev1.ResourceName
	// Need and Have are base units of Resource; for ShapeDoesNotFit they count pods.
	Need int64
	Have int64
	// Detail is what was not met, where Resource does not say it.
	Detail string
}

// Message tells the rejection to a person.
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
		return fmt.Sprintf("has %s of %s free on the nodes asked for, %s is needed",
			quantity.Format(r.Resource, r.Have), r.Resource, quantity.Format(r.Resource, r.Need))
	case ShapeDoesNotFit:
		return fmt.Sprintf("has room on its nodes for %d of %d pods", r.Have, r.Need)
	case UnknownCluster:
		return "has not advertised"
	}
	return string(r.Reason)
}
