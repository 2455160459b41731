package app

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

type receiptOptions struct {
	file, caFile string
	verify       bool
	output       *output
}

func newAuditReceiptCommand(p *plugin) *cobra.Command {
	o := receiptOptions{}
	cmd := &cobra.Command{
		Use:   "receipt [NAME]",
		Short: "Show what the broker signed about a placement, and prove it.",
		Long: `Shows the last receipt that a member's agent keeps for a placement: what the broker signed
about parties, amounts, price and times when it was granted, changed or ended.

NAME is that of a placement (res-...-1), of a reservation (res-..., its last placement) or
of a ResourceRequest. With --file the receipt is read from a file that this command wrote
with -o json or yaml, or that has the line about an ended placement of an agent's log;
then no cluster is needed.

--verify checks the signature with the CA of the broker's server certificate. That
certificate must have been valid when the broker signed. It exits with 1 if the receipt is
not what the broker signed.`,
		Example: `  kubectl broker audit receipt my-request
  kubectl broker audit receipt res-k3v9x2m7qa-1 -o json >receipt.json
  kubectl broker audit receipt --file receipt.json --verify --ca-file ca.crt`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeFirst(listNames),
	}
	o.output = newOutput(cmd, false)
	fs := cmd.Flags()
	fs.StringVar(&o.file, "file", "", "file with a receipt, instead of NAME")
	fs.BoolVar(&o.verify, "verify", false, "check the signature; needs --ca-file")
	fs.StringVar(&o.caFile, "ca-file", "", "CA of the broker's server certificate in PEM, such as ca.crt of an agent's identity; several are possible in one file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case (len(args) == 1) == (o.file != ""):
			return newUsageError("name either a placement, reservation or request, or a --file")
		case o.verify != (o.caFile != ""):
			return newUsageError("--verify and --ca-file belong together: the CA is ca.crt in the Secret of an agent's identity")
		}
		return p.showReceipt(cmd.Context(), args, &o)
	}
	return cmd
}

// receiptView is the output of the command. Said repeats the statement in Receipt in readable form.
// Only Receipt can be verified.
type receiptView struct {
	metav1.TypeMeta `json:",inline"`
	// Name is the name of the placement.
	Name string            `json:"name"`
	Said receipt.Statement `json:"said"`
	// VerifiedFor are the names in the certificate that signed the receipt. It is empty if the
	// signature was not checked.
	VerifiedFor []string               `json:"verifiedFor,omitempty"`
	Receipt     brokerv1alpha1.Receipt `json:"receipt"`
	// from names the object or the file with the receipt. problem is why the agent did not accept the broker's last
	// receipt; "" if it did. later is a remark that a later placement has no receipt; "" if the receipt is that of the
	// last placement.
	from    string
	ref     []view.Ref
	problem string
	later   string
}

func (p *plugin) showReceipt(ctx context.Context, args []string, o *receiptOptions) error {
	v := &receiptView{from: o.file}
	var err error
	if o.file != "" {
		err = v.readFile(o.file)
	} else {
		err = p.findReceipt(ctx, args[0], v)
	}
	if err != nil {
		return err
	}
	said, err := receipt.Read(&v.Receipt)
	if err != nil {
		return fmt.Errorf("%s: %w", v.from, err)
	}
	v.Said, v.Name = *said, brokerv1alpha1.PlacementName(said.Agreement.Reservation, said.Agreement.Placement)
	if o.verify {
		if err := v.verifySignature(o.caFile); err != nil {
			return fmt.Errorf("%s: %w", v.from, err)
		}
	}
	if o.output.isText() {
		return v.writeText(p.Out)
	}
	v.TypeMeta = metav1.TypeMeta{APIVersion: view.APIVersion, Kind: "SignedReceipt"}
	return o.output.writeView(p.Out, v, v.ref)
}

func (v *receiptView) verifySignature(caFile string) error {
	pool, err := readRoots(caFile)
	if err != nil {
		return err
	}
	_, signer, err := receipt.Verify(&v.Receipt, pool)
	if err != nil {
		return err
	}
	v.VerifiedFor = namesOfServer(signer)
	return nil
}

// readRoots reads CAs in PEM; nil for no file.
func readRoots(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots, err := pki.ParseBundle(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", caFile, err)
	}
	pool := x509.NewCertPool()
	for _, root := range roots {
		pool.AddCert(root)
	}
	return pool, nil
}

// namesOfServer returns the names for which a server certificate is valid.
func namesOfServer(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = []string{cert.Subject.String()}
	}
	return names
}

// readFile reads a receipt from an output of this command, an instruction object, or a line of an
// agent's log.
func (v *receiptView) readFile(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var read struct {
		Said    json.RawMessage         `json:"said"`
		Receipt *brokerv1alpha1.Receipt `json:"receipt"`
		Spec    struct {
			Receipt *brokerv1alpha1.Receipt `json:"receipt"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &read); err != nil {
		return fmt.Errorf("%s: it is no receipt: %w", file, err)
	}
	found := read.Receipt
	if found == nil {
		found = read.Spec.Receipt
	}
	if found == nil {
		return fmt.Errorf("%s: it has no receipt: write one with kubectl broker audit receipt NAME -o json", file)
	}
	v.Receipt = *found
	return v.checkSaid(read.Said)
}

// checkSaid returns an error if the readable part of a file differs from the signed statement:
// people may have looked only at the readable part. It accepts a file without that part.
func (v *receiptView) checkSaid(text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	said := receipt.Statement{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&said); err != nil {
		return fmt.Errorf("%s: said: %w", v.from, err)
	}
	signed, err := receipt.Read(&v.Receipt)
	if err != nil {
		return fmt.Errorf("%s: %w", v.from, err)
	}
	if !signed.Equal(&said) {
		return fmt.Errorf("%s: its readable part (said) is not what was signed", v.from)
	}
	return nil
}

var placementName = regexp.MustCompile(`^(res-[a-z0-9]{10})(-[1-9][0-9]*)?$`)

// findReceipt searches the instructions of a member for a receipt, and stores the receipt in v. name is the name of a
// placement, a reservation or a ResourceRequest. For a reservation or a ResourceRequest, findReceipt takes the receipt
// of the last placement that has one.
func (p *plugin) findReceipt(ctx context.Context, name string, v *receiptView) error {
	c, err := p.connectSelected()
	if err != nil {
		return err
	}
	if !c.member {
		return fmt.Errorf("%s is no member's cluster: agents keep the receipts, choose the --context of the requester or of the provider", c.describeRoles())
	}
	wanted, err := c.placementOf(ctx, name)
	if err != nil {
		return err
	}
	reservation := placementName.FindStringSubmatch(wanted)[1]
	s, err := c.gatherObjects(ctx, "", p.now(), whole)
	if err != nil {
		return err
	}
	var all []keptReceipt
	consider := func(kind string, o client.Object, in string, number int32, signed *brokerv1alpha1.Receipt, problem string) {
		if in != reservation || wanted != reservation && wanted != o.GetName() {
			return
		}
		all = append(all, keptReceipt{number, signed, view.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, problem})
	}
	for _, o := range s.Member.ConsumerInstructions {
		consider("ReservationInstruction", o, o.Spec.ReservationName, o.Spec.Placement, o.Spec.Receipt, o.Spec.ReceiptProblem)
	}
	for _, o := range s.Member.ProviderInstructions {
		consider("ProviderInstruction", o, o.Spec.ReservationName, o.Spec.Placement, o.Spec.Receipt, o.Spec.ReceiptProblem)
	}
	switch problem := v.showLast(all); {
	case v.from != "":
		return nil
	case problem != "":
		return fmt.Errorf("the agent of %s keeps no receipt of %s: %s", c.describeRoles(), wanted, problem)
	}
	return fmt.Errorf("%s keeps no receipt of %s%s", c.describeRoles(), wanted, describeGaps(s.Gaps))
}

// keptReceipt is the part of an instruction that is about the receipts of its placement.
type keptReceipt struct {
	// placement is the number of the placement, 0 if no instruction was found.
	placement int32
	// signed is nil if the agent keeps no receipt. problem is why the agent did not accept the broker's last receipt;
	// "" if it did.
	signed  *brokerv1alpha1.Receipt
	ref     view.Ref
	problem string
}

// showLast shows the receipt of the last placement that has one. It returns why the agent did not accept the receipt
// of the last placement; "" if the agent accepted it or got none.
func (v *receiptView) showLast(all []keptReceipt) (problem string) {
	var kept, last keptReceipt
	for _, r := range all {
		if r.placement > last.placement {
			last = r
		}
		if r.signed != nil && r.placement > kept.placement {
			kept = r
		}
	}
	if kept.signed == nil {
		return last.problem
	}
	v.Receipt, v.ref, v.problem = *kept.signed, []view.Ref{kept.ref}, kept.problem
	v.from = fmt.Sprintf("%s %s/%s", kept.ref.Kind, kept.ref.Namespace, kept.ref.Name)
	if last.placement > kept.placement {
		v.later = fmt.Sprintf("the agent keeps no receipt of the later placement %s%s", last.ref.Name, strings.TrimSuffix(": "+last.problem, ": "))
	}
	return last.problem
}

// placementOf returns name unchanged if it names a placement (res-…-1) or a reservation (res-…). Otherwise it takes
// name as that of a ResourceRequest in the user's namespace, and returns the name of its reservation.
func (c *connection) placementOf(ctx context.Context, name string) (string, error) {
	if placementName.MatchString(name) {
		return name, nil
	}
	rr := &agentv1alpha1.ResourceRequest{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: strings.TrimPrefix(name, "rreq/")}, rr)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("%s has no ResourceRequest %q in namespace %s, and it is no name of a reservation (res-...)", c.describeRoles(), name, c.namespace)
	case err != nil:
		return "", err
	case !placementName.MatchString(rr.Status.ReservationName):
		return "", errors.New("the ResourceRequest has no reservation, so nothing was agreed")
	}
	return rr.Status.ReservationName, nil
}

func (v *receiptView) writeText(out io.Writer) error {
	a, w := &v.Said.Agreement, tabwriter.NewWriter(out, 15, 0, 3, ' ', 0)
	line := func(what, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", what, view.Clean(value)) // a file may have been edited to look verified
		}
	}
	line("PLACEMENT", v.Name)
	line("requester", a.Requester)
	line("provider", a.Provider)
	state := a.State
	if a.Reason != "" {
		state += " (" + a.Reason + ")"
	}
	line("state", state)
	line("resources", joinAmounts(a.Resources))
	line("price", describePrice(a))
	line("held since", formatTime(&a.HeldSince))
	if a.State == receipt.Held && a.Until == nil {
		line("until", "its requester stops renewing it")
	}
	line("until", formatTime(a.Until))
	line("acknowledged", formatTime(a.AcknowledgedAt))
	line("ended", formatTime(a.EndedAt))
	line("signed", formatTime(&v.Said.SignedAt))
	line("journal", fmt.Sprintf("%s, record %d, hash %s", v.Said.Journal.ID, v.Said.Journal.Position, v.Said.Journal.Hash))
	line("kept in", v.from)
	if v.VerifiedFor != nil {
		line("VERIFIED", "signed by "+strings.Join(v.VerifiedFor, ", "))
	} else {
		line("NOT VERIFIED", "use --verify --ca-file")
	}
	if v.problem != "" {
		line("WARNING", "the agent did not accept the broker's last receipt: "+v.problem)
	}
	line("WARNING", v.later)
	return w.Flush()
}

func formatTime(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Format(time.RFC3339)
}

func joinAmounts(amounts map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		parts = append(parts, name+" "+amounts[name])
	}
	return strings.Join(parts, ", ")
}

func describePrice(a *receipt.Agreement) string {
	p := a.Price
	if p == nil {
		return view.NotPriced
	}
	text := view.WithNotPriced(fmt.Sprintf("%s %s per hour (%s)", p.PerHour, p.Currency, joinAmounts(p.Rates)), a.NotPriced())
	if p.Once != "" {
		text += fmt.Sprintf(", and %s %s once", p.Once, p.Currency)
	}
	return text
}
