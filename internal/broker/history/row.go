package history

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Limits of a row. They bound what a member can make the broker store.
const (
	// maxMessage is the maximum length of Message and Withdrawn in bytes.
	maxMessage = 256
	// maxPlacements is the maximum number of placements that a Row lists.
	maxPlacements = 8
)

// Row describes a reservation that has ended. Times are in UTC and whole seconds.
type Row struct {
	Name      string           `json:"name"`
	Requester string           `json:"requester"`
	Tenant    string           `json:"tenant,omitempty"`
	Amounts   quantity.Amounts `json:"amounts"`
	// By and EndedBy are the actors as the journal records them; "" if they are unknown.
	By        string    `json:"by,omitempty"`
	EndedBy   string    `json:"endedBy,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt"`
	// Reason is why the reservation ended, and Message explains the reason.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Placements are the newest placements, oldest first. Earlier is the number of placements before
	// them.
	Placements []Placement `json:"placements,omitempty"`
	Earlier    int         `json:"earlier,omitempty"`
	// Costs lists what the reservation cost in each currency.
	Costs []Cost `json:"costs,omitempty"`
}

// Placement describes a placement of a reservation that has ended.
type Placement struct {
	Provider   string    `json:"provider"`
	AssignedAt time.Time `json:"assignedAt"`
	// AcknowledgedAt is when the provider accepted the placement; zero if it never did.
	AcknowledgedAt time.Time `json:"acknowledgedAt,omitzero"`
	// Withdrawn is why the placement was given up before the end of the reservation, and WithdrawnAt
	// is when; "" and zero if it was not.
	Withdrawn   string    `json:"withdrawn,omitempty"`
	WithdrawnAt time.Time `json:"withdrawnAt,omitzero"`
	// PerHour is the locked price of the placement for one hour, in Currency, without the resources in
	// NotPriced. If the placement had no price, PerHour is 0 and Currency is "".
	PerHour   money.Price           `json:"perHour,omitempty"`
	Currency  string                `json:"currency,omitempty"`
	NotPriced []corev1.ResourceName `json:"notPriced,omitempty"`
}

// Cost is what a reservation cost in one currency.
type Cost struct {
	Currency string    `json:"currency"`
	Sum      money.Sum `json:"sum"`
}

// Clip shortens the row to its limits: it shortens long texts and keeps only the newest placements.
func (r *Row) Clip() {
	r.Message = message.Clip(r.Message, maxMessage)
	if n := len(r.Placements) - maxPlacements; n > 0 {
		r.Placements, r.Earlier = r.Placements[n:], r.Earlier+n
	}
	for i := range r.Placements {
		r.Placements[i].Withdrawn = message.Clip(r.Placements[i].Withdrawn, maxMessage)
	}
}
