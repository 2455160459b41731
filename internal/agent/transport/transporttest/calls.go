package transporttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// Operation is the operationId of a call in the API description.
type Operation string

// The operations of the broker's API.
const (
	Ping                 Operation = "ping"
	PublishAdvertisement Operation = "publishAdvertisement"
	RequestReservation   Operation = "requestReservation"
	RequestQuote         Operation = "requestQuote"
	ReleaseQuote         Operation = "releaseQuote"
	GetReservation       Operation = "getReservation"
	ReleaseReservation   Operation = "releaseReservation"
	ChangeReservation    Operation = "changeReservation"
	ReportStatus         Operation = "reportStatus"
	FetchInstructions    Operation = "fetchInstructions"
	ListCosts            Operation = "listCosts"
	AnnounceHoldings     Operation = "announceHoldings"
	SendMessage          Operation = "sendMessage"
	ReceiveMessages      Operation = "receiveMessages"
)

// Call is a recorded call. Fields that the operation does not have are zero.
type Call struct {
	Operation Operation
	ClusterID string
	// Name is the name or idempotency key of the reservation or quote.
	Name   string
	Cursor string
	// User is the name of the user who released a reservation.
	User string
	Wait time.Duration
	// Body is a pointer to the decoded request body.
	Body any
}

// Report is a StatusReport and the name of the reservation that it is about.
type Report struct {
	Reservation string
	v1.StatusReport
}

// Calls returns all calls of an operation, in order.
func (b *Broker) Calls(operation Operation) []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.callsOf(operation)
}

// AwaitCalls waits for n calls of an operation. It returns an error if ctx ends first.
func (b *Broker) AwaitCalls(ctx context.Context, operation Operation, n int) error {
	for {
		b.mu.Lock()
		arrived, changed := len(b.callsOf(operation)), b.changed
		b.mu.Unlock()
		if arrived >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d calls of %s, want %d: %w", arrived, operation, n, ctx.Err())
		}
	}
}

// Requests returns the idempotency keys of all calls of RequestReservation, with repetitions.
func (b *Broker) Requests() []string {
	var keys []string
	for _, c := range b.Calls(RequestReservation) {
		keys = append(keys, c.Name)
	}
	return keys
}

// Changes returns the bodies of all calls of ChangeReservation.
func (b *Broker) Changes() []v1.ReservationChange {
	var changes []v1.ReservationChange
	for _, change := range bodiesOf[v1.ReservationChange](b, ChangeReservation) {
		changes = append(changes, *change)
	}
	return changes
}

// Reports returns all status reports.
func (b *Broker) Reports() []Report {
	var reports []Report
	for _, c := range b.Calls(ReportStatus) {
		if report, ok := c.Body.(*v1.StatusReport); ok {
			reports = append(reports, Report{Reservation: c.Name, StatusReport: *report})
		}
	}
	return reports
}

// Advertised returns all published advertisements.
func (b *Broker) Advertised() []*v1.Advertisement {
	return bodiesOf[v1.Advertisement](b, PublishAdvertisement)
}

// Announced returns all announced holdings.
func (b *Broker) Announced() []*v1.Holdings { return bodiesOf[v1.Holdings](b, AnnounceHoldings) }

func bodiesOf[T any](b *Broker, operation Operation) []*T {
	var bodies []*T
	for _, c := range b.Calls(operation) {
		if body, ok := c.Body.(*T); ok {
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// Held returns the idempotency keys of all reservations that hold capacity.
func (b *Broker) Held() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []string
	for at, r := range b.reservations {
		if r.state != nil && (r.state.Phase == v1.ReservationPhaseReserved || r.state.Phase == v1.ReservationPhaseActive) {
			_, key, _ := strings.Cut(at, "/")
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Reservations returns the names of all reservations.
func (b *Broker) Reservations() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, r := range b.reservations {
		if r.state != nil {
			names = append(names, r.state.Name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// recordCall records a call and returns the error that Fail has planned for it. If the broker is
// down, it records nothing and returns errDown.
func (b *Broker) recordCall(call Call) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return errDown
	}
	b.calls = append(b.calls, call)
	b.notifyChange()
	planned := b.failures[call.Operation]
	if len(planned) == 0 {
		return nil
	}
	b.failures[call.Operation] = planned[1:]
	return planned[0]
}

// callsOf returns all calls of an operation. The caller must hold mu.
func (b *Broker) callsOf(operation Operation) []Call {
	var calls []Call
	for _, c := range b.calls {
		if c.Operation == operation {
			calls = append(calls, c)
		}
	}
	return calls
}
