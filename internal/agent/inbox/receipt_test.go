package inbox

import (
	"crypto/x509"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// signedInstruction returns an instruction with a receipt that agrees with it, unless edit changes
// the receipt.
func signedInstruction(t *testing.T, a *pkitest.Authority, role v1.InstructionRole, state v1.InstructionState, now time.Time, edit func(*receipt.Agreement)) *v1.Instruction {
	t.Helper()
	in := instruction(role, state)
	agreed := &receipt.Agreement{
		Reservation: in.Reservation, Placement: in.Placement, Requester: in.ConsumerID, Provider: in.ProviderID,
		State: receipt.Held, Resources: in.Resources, HeldSince: *receipt.Instant(now),
	}
	if state != v1.InstructionStateHold {
		agreed.State, agreed.EndedAt, agreed.Reason = receipt.Ended, receipt.Instant(now), "Released"
	}
	if edit != nil {
		edit(agreed)
	}
	credentials := &pki.Credentials{Certificate: pkitest.Parse(t)(a.IssueServer([]string{"broker"}, nil))}
	signer := receipt.NewSigner(func() (*pki.Credentials, error) { return credentials, nil })
	signed, err := signer.Sign(agreed, receipt.Place{ID: "journal", Position: 7, Hash: strings.Repeat("0", 64)}, now)
	runtest.Check(t, err)
	in.Receipt = signed
	return &in
}

// keptReceipt reads the receipt and its problem from the object of an instruction.
func keptReceipt(t *testing.T, c client.Client, in *v1.Instruction) (kept *brokerv1alpha1.Receipt, problem string, released bool) {
	t.Helper()
	key := client.ObjectKey{Namespace: "default", Name: brokerv1alpha1.PlacementName(in.Reservation, in.Placement)}
	if in.Role == v1.InstructionRoleProvider {
		obj := &agentv1alpha1.ProviderInstruction{}
		runtest.Check(t, c.Get(t.Context(), key, obj))
		return obj.Spec.Receipt, obj.Spec.ReceiptProblem, obj.Spec.Release
	}
	obj := &agentv1alpha1.ReservationInstruction{}
	runtest.Check(t, c.Get(t.Context(), key, obj))
	return obj.Spec.Receipt, obj.Spec.ReceiptProblem, obj.Spec.Release
}

func TestAgentsKeepTheLastValidReceipt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := pkitest.New(t, "servers", now)
	other := pkitest.New(t, "others", now)
	for _, role := range []v1.InstructionRole{v1.InstructionRoleConsumer, v1.InstructionRoleProvider} {
		t.Run(string(role), func(t *testing.T) {
			var logged []string
			ctx := log.IntoContext(t.Context(), funcr.NewJSON(func(line string) { logged = append(logged, line) }, funcr.Options{}))
			c := newCluster(t)
			options := newOptions(c)
			options.Receipts = &receipt.Checker{Roots: func() (*x509.CertPool, error) { return a.Pool(), nil }}
			i := NewInstructions(c, nil, options)
			apply := func(in *v1.Instruction) (kept *brokerv1alpha1.Receipt, problem string, released bool) {
				t.Helper()
				runtest.Check(t, i.applyInstruction(ctx, in, now))
				return keptReceipt(t, c, in)
			}
			hold := signedInstruction(t, a, role, v1.InstructionStateHold, now, nil)
			granted, problem, _ := apply(hold)
			if granted == nil || granted.Statement != hold.Receipt.Statement || problem != "" {
				t.Fatalf("the grant's receipt is not kept: %v, %q", granted, problem)
			}
			writes := c.writes()
			apply(signedInstruction(t, a, role, v1.InstructionStateHold, now.Add(time.Minute), func(agreed *receipt.Agreement) { agreed.HeldSince = now }))
			if c.writes() != writes {
				t.Error("a receipt that says nothing new is written")
			}
			for name, forged := range map[string]*v1.Instruction{
				"another CA": signedInstruction(t, other, role, v1.InstructionStateHold, now, nil),
				"amounts":    signedInstruction(t, a, role, v1.InstructionStateHold, now, func(agreed *receipt.Agreement) { agreed.Resources = map[string]string{"cpu": "99"} }),
			} {
				kept, problem, released := apply(forged)
				if problem == "" || released || kept == nil || kept.Statement != granted.Statement {
					t.Errorf("%s: kept %v, problem %q, released %t; want the grant's receipt, a problem, and the placement", name, kept, problem, released)
				}
			}
			if _, problem, _ := apply(hold); problem != "" {
				t.Errorf("the problem stays after a valid receipt: %s", problem)
			}
			end := signedInstruction(t, a, role, v1.InstructionStateRelease, now, nil)
			kept, problem, released := apply(end)
			if kept.Statement != end.Receipt.Statement || problem != "" || !released {
				t.Errorf("the end's receipt is not kept: %v, %q, released %t", kept, problem, released)
			}
			var line struct{ Receipt *brokerv1alpha1.Receipt }
			runtest.Check(t, json.Unmarshal([]byte(logged[len(logged)-1]), &line))
			if diff := cmp.Diff(end.Receipt, line.Receipt); diff != "" {
				t.Errorf("the end's receipt in the log (-want +got):\n%s", diff)
			}
		})
	}
}
