package broker

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/receipts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// agreementsMatch checks that the agreement to sign for each placement of a reservation says what
// the instructions of both sides say. r may be nil.
func (m *machine) agreementsMatch(r *ledger.Reservation) error {
	if r == nil {
		return nil
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		agreed := receipts.AgreementOf(r, p)
		if agreed.State == receipt.Ended && agreed.Reason == "" {
			return fmt.Errorf("the receipt of %s-%d does not say why it ended", r.Name, p.Number)
		}
		for _, role := range []v1.InstructionRole{v1.InstructionRoleConsumer, v1.InstructionRoleProvider} {
			in := m.session.InstructionFor(r, p, role)
			if err := agreed.Compare(&in); err != nil {
				return fmt.Errorf("%s %s-%d: %w", role, r.Name, p.Number, err)
			}
		}
	}
	return nil
}

// withReceipts restarts the fleet's broker with a server certificate, and returns its CA.
func (f *fleet) withReceipts() *x509.CertPool {
	a := pkitest.New(f.t, "servers", time.Now())
	credentials := &pki.Credentials{Certificate: pkitest.Parse(f.t)(a.IssueServer([]string{"broker"}, nil))}
	f.signer = receipt.NewSigner(func() (*pki.Credentials, error) { return credentials, nil })
	f.kill()
	return a.Pool()
}

// verifyReceipt verifies the receipt of an instruction, and compares it with the stored journal.
func (f *fleet) verifyReceipt(roots *x509.CertPool, in *v1.Instruction) *receipt.Statement {
	f.t.Helper()
	if in.Receipt == nil {
		f.t.Fatalf("no receipt for %s-%d", in.Reservation, in.Placement)
	}
	s, _, err := receipt.Verify(in.Receipt, roots)
	runtest.Check(f.t, err)
	if err := s.Agreement.Compare(in); err != nil {
		f.t.Error(err)
	}
	anchor := journal.Anchor{Journal: s.Journal.ID, Position: s.Journal.Position, Hash: s.Journal.Hash, By: "receipt"}
	got, err := journal.VerifyAnchored(context.Background(), f.server.Client(), JournalName, journal.Options{}, []journal.Anchor{anchor})
	if err != nil || len(got.Agreed) != 1 {
		f.t.Errorf("the journal does not agree with the receipt: %+v, %v", got, err)
	}
	if r := f.session.book.Reservation(in.Reservation); r.Changed > s.Journal.Position {
		f.t.Errorf("the receipt proves position %d, the agreement is in %d", s.Journal.Position, r.Changed)
	}
	return s
}

// newestInstruction returns the first instruction about a reservation that a cluster fetches.
func (f *fleet) newestInstruction(id, reservation string) *v1.Instruction {
	f.t.Helper()
	list, err := f.FetchInstructions(context.Background(), id, "", 0)
	runtest.Check(f.t, err)
	for i := range list.Instructions {
		if in := &list.Instructions[i]; in.Reservation == reservation {
			return in
		}
	}
	f.t.Fatalf("%s gets no instruction about %s", id, reservation)
	return nil
}

func TestBothSidesProveGrantChangeAndEnd(t *testing.T) {
	inFleet(t, func(f *fleet) {
		roots := f.withReceipts()
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		granted := time.Now().UTC().Truncate(time.Second)
		r := f.reserve("rome", "request-1", with(fourHours))
		want := receipt.Agreement{
			Reservation: r.Name, Placement: 1, Requester: "rome", Provider: "paris", State: receipt.Held,
			Resources: map[string]string{"cpu": "4", "memory": "1Gi"},
			Price:     &receipt.Price{Currency: "EUR", PerHour: "0.8", Rates: map[string]string{"cpu": "0.2", "memory": "0"}},
			HeldSince: granted, Until: receipt.Instant(granted.Add(4 * time.Hour)),
		}
		check := func(when string, answered *v1.Reservation) {
			t.Helper()
			for side, in := range map[string]*v1.Instruction{
				"the requester's answer": &answered.Instruction,
				"the requester's news":   f.newestInstruction("rome", r.Name), "the provider's news": f.newestInstruction("paris", r.Name),
			} {
				if diff := cmp.Diff(want, f.verifyReceipt(roots, in).Agreement); diff != "" {
					t.Errorf("%s, %s (-want +got):\n%s", when, side, diff)
				}
			}
		}
		check("grant", r)

		time.Sleep(3 * time.Second)
		acknowledged := receipt.Instant(time.Now())
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		check("acknowledgement", f.get("rome", r.Name))

		change := &v1.ReservationChange{Generation: 2, DurationSeconds: 6 * 3600, Resources: v1.Amounts{"cpu": "8", "memory": "1Gi"}}
		asked, err := f.ChangeReservation(context.Background(), "rome", r.Name, change)
		runtest.Check(t, err)
		want.Until = receipt.Instant(granted.Add(6 * time.Hour))
		check("change that the provider has not agreed to", asked)
		err = f.ReportStatus(context.Background(), "paris", r.Name, &v1.StatusReport{Placement: 1, Role: provider, State: v1.StatusReportStateAcknowledged, Change: 2})
		runtest.Check(t, err)
		want.Resources["cpu"], want.Price.PerHour = "8", "1.6"
		check("change", f.get("rome", r.Name))

		time.Sleep(time.Minute)
		want.State, want.EndedAt, want.Reason, want.AcknowledgedAt = receipt.Ended, receipt.Instant(time.Now()), "Released", acknowledged
		ended, err := f.ReleaseReservation(context.Background(), "rome", r.Name, "")
		runtest.Check(t, err)
		check("end", ended)
	})
}

// A broker that cannot sign receipts still grants capacity.
func TestBrokerThatCannotSignAnswersWithoutReceipts(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.signer = receipt.NewSigner(func() (*pki.Credentials, error) { return nil, errors.New("certificate expired") })
		f.kill()
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		if r.Instruction.Receipt != nil || f.newestInstruction("paris", r.Name).Receipt != nil {
			t.Error("something is signed")
		}
	})
}

// BenchmarkReserveWithReceipts is BenchmarkReserve with signed answers.
func BenchmarkReserveWithReceipts(b *testing.B) {
	a := pkitest.New(b, "servers", time.Now())
	credentials := &pki.Credentials{Certificate: pkitest.Parse(b)(a.IssueServer([]string{"broker"}, nil))}
	broker := serving(b, withoutBudget())
	broker.receipts = receipts.New(receipt.NewSigner(func() (*pki.Credentials, error) { return credentials, nil }), broker.opts.Now, broker.opts.Log)
	reserveRepeatedly(b, broker)
}
