package receipt

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// clockTolerance is by how much the time in a new receipt may differ from the clock of the
// receiving cluster. It includes the time that the answer took to arrive.
const clockTolerance = 10 * time.Minute

// Checker checks the receipts that an agent gets from the broker.
type Checker struct {
	// Roots returns the CAs of the broker's server certificate.
	Roots func() (*x509.CertPool, error)
	// ClusterID is the ID of the agent's cluster.
	ClusterID string
}

var errNone = errors.New("the broker sent no receipt")

// Choose returns the receipt that an agent keeps after an instruction has arrived. It returns the
// instruction's receipt if that is valid and states another agreement than the kept receipt,
// otherwise the kept receipt. problem says what is wrong with the instruction's receipt; nil if
// nothing is.
func (c *Checker) Choose(in *v1.Instruction, kept *brokerv1alpha1.Receipt, received time.Time) (choice *brokerv1alpha1.Receipt, problem error) {
	told, err := c.check(in, received)
	if err != nil {
		return kept, err
	}
	if kept != nil {
		if known, err := Read(kept); err == nil && known.Agreement.Equal(&told.Agreement) {
			return kept, nil
		}
	}
	return in.Receipt, nil
}

// check verifies the receipt of an instruction, and compares its content with the instruction. The
// receipt must have been signed at about the time at which it was received, and must name this
// cluster. Without a receipt, check returns errNone.
func (c *Checker) check(in *v1.Instruction, received time.Time) (*Statement, error) {
	if in.Receipt == nil {
		return nil, errNone
	}
	roots, err := c.Roots()
	if err != nil {
		return nil, fmt.Errorf("no CA to verify the receipt with: %w", err)
	}
	s, _, err := Verify(in.Receipt, roots)
	if err != nil {
		return nil, err
	}
	if off := received.Sub(s.SignedAt); off.Abs() > clockTolerance {
		return nil, fmt.Errorf("the receipt is signed at %s, %s from the clock of this cluster", s.SignedAt.Format(time.RFC3339), off.Abs().Truncate(time.Second))
	}
	own := s.Agreement.Requester
	if in.Role == v1.InstructionRoleProvider {
		own = s.Agreement.Provider
	}
	if c.ClusterID != "" && own != c.ClusterID {
		return nil, fmt.Errorf("the receipt names %q where it should name this cluster, %q", own, c.ClusterID)
	}
	return s, s.Agreement.Compare(in)
}

// Compare returns an error if an agreement contradicts the broker's instruction about the same
// placement in its parties, state or amounts, or if only one of them has an end. It does not
// compare the amounts of an instruction that asks the provider for a change, because the provider
// has not agreed to them.
func (a *Agreement) Compare(in *v1.Instruction) error {
	held := in.State == v1.InstructionStateHold
	switch {
	case a.Reservation != in.Reservation || a.Placement != in.Placement:
		return fmt.Errorf("the receipt is about placement %s, the instruction about %s", a.placementName(), brokerv1alpha1.PlacementName(in.Reservation, in.Placement))
	case a.Requester != in.ConsumerID:
		return fmt.Errorf("the receipt names requester %q, the instruction %q", a.Requester, in.ConsumerID)
	case a.Provider != in.ProviderID:
		return fmt.Errorf("the receipt names provider %q, the instruction %q", a.Provider, in.ProviderID)
	case held != (a.State == Held):
		return fmt.Errorf("the receipt says %s, the instruction %s", a.State, in.State)
	case in.Change == 0 && !maps.Equal(a.Resources, in.Resources):
		return fmt.Errorf("the receipt is about %v, the instruction about %v", a.Resources, in.Resources)
	case held && (a.Until == nil) != (in.RemainingSeconds == nil):
		return errors.New("only one of receipt and instruction has an end")
	}
	return nil
}
