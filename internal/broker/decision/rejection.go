package decision

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Reason is why a candidate cannot provide.
type Reason string

// The reasons, in the order in which they are checked. Only Cordoned and UnknownCluster are out of
// order: Cordoned is checked after ExceededGrant, and UnknownCluster first of all.
const (
	// Self: the candidate is the requesting cluster.
	Self Reason = "Self"
	// AlreadyTried: the candidate is in Request.Exclude, because it was tried for this request
	// before.
	AlreadyTried Reason = "AlreadyTried"
	// Denied: an administrator does not let the candidate provide, or the candidate does not lend
	// to this requester.
	Denied Reason = "Denied"
	// Cordoned: an administrator of the broker drains or cordons the candidate.
	Cordoned Reason = "Cordoned"
	// LendingPaused: the candidate's operator has paused lending to all requesters.
	LendingPaused = Reason(lending.LendingPaused)
	// ProviderNotReady: the candidate reports that it cannot peer.
	ProviderNotReady = Reason(lending.ProviderNotReady)
	// ProviderLeaving: the candidate's agent is being uninstalled, or has been.
	ProviderLeaving = Reason(lending.ProviderLeaving)
	// ConsumerDenied: the candidate's operator does not lend to this requester.
	ConsumerDenied = Reason(lending.ConsumerDenied)
	// Stale: the candidate has missed advertisements.
	Stale Reason = "Stale"
	// ExceededGrant: the requester has recently and repeatedly used more than it was granted.
	ExceededGrant Reason = "ExceededGrant"
	// Paused: the candidate has recently failed too often to deliver its promises.
	Paused Reason = "Paused"
	// Unreachable: the requester cannot reach the candidate's API server.
	Unreachable Reason = "Unreachable"
	// AffinityNotMet: the candidate provides none of the reservations that the request must be
	// placed with.
	AffinityNotMet Reason = "AffinityNotMet"
	// AntiAffinityNotMet: the candidate provides a reservation that the request must be kept apart
	// from.
	AntiAffinityNotMet Reason = "AntiAffinityNotMet"
	// WrongLocation: the candidate's region or zone is not one of the requested ones.
	WrongLocation Reason = "WrongLocation"
	// NotIncluded: the request lists the acceptable clusters, and the candidate is not among
	// them.
	NotIncluded Reason = "NotIncluded"
	// Excluded: the constraints of the request exclude the candidate by name.
	Excluded Reason = "Excluded"
	// LabelsDoNotMatch: the candidate's labels do not match the cluster selector of the request.
	LabelsDoNotMatch Reason = "LabelsDoNotMatch"
	// DataElsewhere: the candidate does not have the data set that the request needs.
	DataElsewhere Reason = "DataElsewhere"
	// ClaimNotMade: the candidate does not make a claim that the request requires, or claims less.
	ClaimNotMade Reason = "ClaimNotMade"
	// NeverAdvertised: the candidate does not offer a resource that the request needs.
	NeverAdvertised Reason = "NeverAdvertised"
	// InsufficientResource: the candidate has too little of a resource free.
	InsufficientResource Reason = "InsufficientResource"
	// NodesDoNotMatch: not enough of a resource is free on the nodes that the request selects and
	// tolerates.
	NodesDoNotMatch Reason = "NodesDoNotMatch"
	// ShapeDoesNotFit: the free amounts suffice, but the pods do not all fit on the nodes.
	ShapeDoesNotFit Reason = "ShapeDoesNotFit"
	// ReadyTooLate: the nodes that the candidate would create may be Ready only when the reservation
	// ends, or later.
	ReadyTooLate Reason = "ReadyTooLate"
	// NoPrice: the request sets a highest price, and the candidate has no price for a requested
	// resource, or there is no exchange rate between the two currencies.
	NoPrice Reason = "NoPrice"
	// TooExpensive: on the candidate, the request would cost more than the highest price that the
	// request accepts.
	TooExpensive Reason = "TooExpensive"

	// UnknownCluster: the cluster that was to be judged is not in the market.
	UnknownCluster Reason = "UnknownCluster"

	// barred means that some constraint is not met; unmetConstraint finds which one. It is never
	// returned to callers of the package.
	barred Reason = "barred"
	// absent means that the row has no candidate. It is never returned to callers of the package.
	absent Reason = "absent"
)

// Rejection is why a candidate cannot provide, with the figures of the failed check.
type Rejection struct {
	Reason Reason
	// Resource is the resource that caused the rejection. It is set for the reasons NeverAdvertised,
	// InsufficientResource and NodesDoNotMatch.
	Resource corev1.ResourceName
	// Need and Have are base units of Resource; for ShapeDoesNotFit they count pods.
	Need int64
	Have int64
	// Detail is the text for Message to return. If it is empty, Message describes the other
	// fields.
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
		return "grants nothing new to a requester that exceeded its grant"
	case Paused:
		return "is paused after failures in a row"
	case Unreachable:
		return "cannot be reached from the requester"
	case NeverAdvertised:
		return fmt.Sprintf("never advertised %s, %s needed",
			r.Resource, quantity.Format(r.Resource, r.Need))
	case InsufficientResource:
		return fmt.Sprintf("has %s %s free, %s needed",
			quantity.Format(r.Resource, r.Have), r.Resource, quantity.Format(r.Resource, r.Need))
	case NodesDoNotMatch:
		return fmt.Sprintf("has %s %s free on the nodes that the request selects and tolerates, %s needed",
			quantity.Format(r.Resource, r.Have), r.Resource, quantity.Format(r.Resource, r.Need))
	case ShapeDoesNotFit:
		return fmt.Sprintf("has room on its nodes for %d of %d pods", r.Have, r.Need)
	case UnknownCluster:
		return "has not advertised"
	}
	return string(r.Reason)
}
