package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"

// What callers of the broker need of package requests.
type (
	// Request is a request for capacity.
	Request = requests.Request
	// Bounds are the limits of one reservation.
	Bounds = requests.Bounds
	// PriorityLimits are the highest priorities that clusters may use.
	PriorityLimits = requests.PriorityLimits
)

// LongestDuration is the longest duration of a reservation.
const LongestDuration = requests.LongestDuration
