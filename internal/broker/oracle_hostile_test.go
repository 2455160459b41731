package broker

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// evil is a hostile member with nothing to lend.
const evil = "evil"

// attack performs one hostile action, which must not change the state of other clusters.
func (m *machine) attack(c choose) (cause, error) {
	deeds := []func(choose) error{m.nameResources, m.inventHoldings, m.shutUnknown, m.sendNowhere, m.reportOnOthers, m.askForTooMuch}
	err := deeds[c(len(deeds))](c)
	if _, considered := errors.AsType[*fault.Error](err); err != nil && !considered {
		return cause{}, fmt.Errorf("a hostile call is answered with %w", err)
	}
	return cause{}, m.withinBudget()
}

// nameResources offers up to 64 resources, under new names each time.
func (m *machine) nameResources(c choose) error {
	m.sequence++
	whole := v1.Amounts{}
	for i := range 1 + c(64) {
		whole[fmt.Sprintf("evil-%d.example.com/r%d", m.sequence, i)] = "1"
	}
	adv := &v1.Advertisement{
		ClusterID: evil, EndpointURL: endpointOf(evil), Epoch: 1, Sequence: m.sequence, Timestamp: m.now(), Capacity: whole, Allocatable: whole,
	}
	_, err := m.PublishAdvertisement(context.Background(), evil, adv)
	if err == nil {
		m.hear(adv, &lender{amounts: quantity.Amounts{}, agent: true, heard: m.now()})
	}
	return err
}

// inventHoldings announces invented placements.
func (m *machine) inventHoldings(c choose) error {
	h := &v1.Holdings{}
	for i := range 1 + c(50) {
		h.Provides = append(h.Provides, v1.ProvidedPlacement{
			Reservation: fmt.Sprintf("res-evil%06d", i), Placement: int32(1 + c(100)), ConsumerID: oneOf(c, "rome", "athens", "nobody"),
			Resources: v1.Amounts{"cpu": "1"}, Acknowledged: true,
		})
	}
	return m.AnnounceHoldings(context.Background(), evil, h)
}

func (m *machine) shutUnknown(c choose) error {
	for range 1 + c(20) {
		if _, err := m.ReleaseReservation(context.Background(), evil, fmt.Sprintf("unknown-%08d-%d", m.steps, c(1000)), ""); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) sendNowhere(c choose) error {
	return m.SendMessage(context.Background(), evil, &v1.Message{To: oneOf(c, "rome", "paris", "nobody"), Slot: fmt.Sprint(m.steps), Body: make([]byte, 1000)})
}

// reportOnOthers reports on placements of other clusters.
func (m *machine) reportOnOthers(c choose) error {
	r := m.anyTold(c)
	if r == nil {
		return nil
	}
	err := m.ReportStatus(context.Background(), evil, r.name, &v1.StatusReport{
		Placement: 1, Role: oneOf(c, consumer, provider), State: oneOf(c, v1.StatusReportStateGone, v1.StatusReportStateRefused),
	})
	if fault.ReasonOf(err) != fault.NotFound {
		return fmt.Errorf("a report on a placement of others: %v", err) // not wrapped, because attack accepts every wrapped refusal
	}
	return nil
}

func (m *machine) askForTooMuch(choose) error {
	_, err := m.RequestReservation(context.Background(), evil, fmt.Sprintf("too-much-%08d", m.steps), &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1000000", "memory": "1Gi"}})
	if err == nil {
		return errors.New("a million cores were granted")
	}
	return err
}

// withinBudget checks that every member keeps within its budget of journal bytes and reservations,
// and that evil holds nothing.
func (m *machine) withinBudget() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	budget, t := m.config.Budget, m.session
	var err error
	t.Limiter.Each(func(id string, written float64, entries int) {
		// An admitted call may exceed the budget by one event.
		if written > float64(budget.JournalPerHour+1<<20) {
			err = fmt.Errorf("%s has written %.0f bytes", id, written)
		}
		if entries > budget.Reservations {
			err = fmt.Errorf("%s has %d reservations and keys in the book", id, entries)
		}
	})
	if err != nil {
		return err
	}
	if c := t.book.Cluster(evil); c != nil && (c.Placements() > 0 || c.Claimed()[corev1.ResourceCPU] > 0) {
		return fmt.Errorf("evil holds %v", c.Claimed())
	}
	return nil
}
