package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Statement is the content of a receipt. Times are by the broker's clock, in UTC and whole seconds.
type Statement struct {
	Agreement Agreement `json:"agreement"`
	// SignedAt is when the broker signed the statement.
	SignedAt time.Time `json:"signedAt"`
	// Journal is a position in the broker's journal. The records up to it contain the agreement.
	Journal Place `json:"journal"`
}

// Equal reports whether both statements are the same.
func (s *Statement) Equal(other *Statement) bool { return reflect.DeepEqual(s, other) }

// States of a placement in an agreement.
const (
	// Held means that the provider holds the capacity for the requester.
	Held = "Held"
	// Ended means that the placement was given up.
	Ended = "Ended"
)

// Agreement is what a requester and a provider have agreed about a placement.
type Agreement struct {
	// Reservation and Placement name the placement.
	Reservation string `json:"reservation"`
	Placement   int32  `json:"placement"`
	// Requester and Provider are the IDs of the clusters.
	Requester string `json:"requester"`
	Provider  string `json:"provider"`
	// State is Held or Ended.
	State string `json:"state"`
	// Resources are the agreed amounts as quantities, for example cpu: "4".
	Resources map[string]string `json:"resources"`
	// Price is the price that was locked with the grant; nil if the provider has none.
	Price *Price `json:"price,omitempty"`
	// HeldSince is when the placement was granted.
	HeldSince time.Time `json:"heldSince"`
	// Until is when the reservation ends; nil if it has no duration and its requester renews it.
	Until *time.Time `json:"until,omitempty"`
	// AcknowledgedAt is when the provider accepted the placement; nil if it never did. It is set
	// only if State is Ended, so that an acknowledgement does not require a new receipt.
	AcknowledgedAt *time.Time `json:"acknowledgedAt,omitempty"`
	// EndedAt is when the placement was given up. Reason is why. They are set only if State is
	// Ended.
	EndedAt *time.Time `json:"endedAt,omitempty"`
	Reason  string     `json:"reason,omitempty"`
}

// NotPriced returns the agreed resources without a price, sorted.
func (a *Agreement) NotPriced() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(a.Resources)) {
		if a.Price == nil || a.Price.Rates[name] == "" {
			names = append(names, name)
		}
	}
	return names
}

// Equal reports whether both agreements are the same.
func (a *Agreement) Equal(b *Agreement) bool { return reflect.DeepEqual(a, b) }

// Price is the locked price of a placement. Its amounts are decimal numbers.
type Price struct {
	Currency string `json:"currency"`
	// PerHour is the price of all resources for one hour.
	PerHour string `json:"perHour"`
	// Rates are the prices per hour of one core, one GiB or one piece, by resource.
	Rates map[string]string `json:"rates,omitempty"`
	// Once is the price for transferring the data; "" if there is none.
	Once string `json:"once,omitempty"`
}

// Place is a position in a journal.
type Place struct {
	// ID is the random ID of the journal.
	ID string `json:"id"`
	// Position is the number of a record. Hash is the hash of the chain at that record, in
	// hexadecimal.
	Position uint64 `json:"position"`
	Hash     string `json:"hash"`
}

// encodeStatement returns the only accepted encoding of a statement: JSON without spaces, with
// fields in the order of the type and sorted keys of maps.
func encodeStatement(s *Statement) ([]byte, error) { return json.Marshal(s) }

// decodeStatement decodes a statement. It refuses any text that encodeStatement cannot have
// written.
func decodeStatement(text string) (*Statement, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	s := &Statement{}
	if err := decoder.Decode(s); err != nil {
		return nil, fmt.Errorf("the statement cannot be read, a newer version may be needed: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the statement has trailing data")
	}
	again, err := encodeStatement(s)
	if err != nil {
		return nil, fmt.Errorf("the statement cannot be written again: %w", err)
	}
	if string(again) != text {
		return nil, errors.New("the statement is not in the form that brokers sign")
	}
	return s, s.check()
}

// check returns an error for a statement that no correct broker signs.
func (s *Statement) check() error {
	a := &s.Agreement
	switch {
	case a.Reservation == "" || a.Placement < 1 || a.Requester == "" || a.Provider == "":
		return errors.New("the statement names no placement, requester or provider")
	case a.State != Held && a.State != Ended:
		return fmt.Errorf("the statement has the unknown state %q", a.State)
	case (a.State == Ended) != (a.EndedAt != nil):
		return fmt.Errorf("the statement has state %s, which does not match its endedAt", a.State)
	case s.SignedAt.IsZero() || a.HeldSince.IsZero():
		return errors.New("the statement has no time")
	}
	for _, at := range []*time.Time{&s.SignedAt, &a.HeldSince, a.Until, a.AcknowledgedAt, a.EndedAt} {
		if at != nil && (at.Nanosecond() != 0 || at.Location() != time.UTC) {
			return errors.New("a time of the statement is not in whole seconds and UTC")
		}
	}
	return nil
}
