package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"

// LongestDuration is the longest duration of a reservation.
const LongestDuration = requests.LongestDuration
