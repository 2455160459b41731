package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// auditLog is the output of audit log.
type auditLog struct {
	metav1.TypeMeta `json:",inline"`
	// Journal is the random ID of the journal.
	Journal string         `json:"journal"`
	Items   []trail.Record `json:"items"`
}

// logOptions are the flags of audit log and audit export.
type logOptions struct {
	journal      string
	filter       trail.Filter
	since, until string
}

func (o *logOptions) addFlags(fs *pflag.FlagSet) {
	addJournalFlag(fs, &o.journal)
	fs.StringVar(&o.since, "since", "", "first time: how long ago, such as 2h or 7d, or an RFC 3339 time")
	fs.StringVar(&o.until, "until", "", "last time, in the same form")
}

func addJournalFlag(fs *pflag.FlagSet, name *string) {
	fs.StringVar(name, "journal", defaultJournal, "name of the journal")
}

func (o *logOptions) parseTimes(now time.Time) (err error) {
	if o.since != "" {
		if o.filter.Since, err = parseTime(o.since, now); err != nil {
			return newUsageError("--since: %w", err)
		}
	}
	if o.until != "" {
		if o.filter.Until, err = parseTime(o.until, now); err != nil {
			return newUsageError("--until: %w", err)
		}
	}
	return nil
}

// parseTime parses an RFC 3339 time, or how long ago a time was, such as 2h, -2h or 7d.
func parseTime(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago := strings.TrimPrefix(text, "-")
	if days, isDays := strings.CutSuffix(ago, "d"); isDays {
		if n, err := strconv.ParseUint(days, 10, 15); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	d, err := time.ParseDuration(ago)
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("%q is no time: write how long ago, such as 2h or 7d, or a time such as %s", text, now.UTC().Format(time.RFC3339))
	}
	return now.Add(-d), nil
}

func newAuditLogCommand(p *plugin) *cobra.Command {
	o := logOptions{}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "List who did what, from the records of the journal.",
		Long: `Lists the records of the journal, oldest first: when, who, what, and between which
clusters. It reads the journal's ConfigMaps in the broker's cluster with your rights, so
it works while the broker is down, and verifies every hash. It shows what is kept:
journal.retention of the broker's chart, 24 h by default.

With --ended it lists the last 20,000 reservations that have ended, however long ago.

A requester or provider is empty if a record before the oldest stored checkpoint does
not name it.`,
		Example: `  kubectl broker audit log --since 2h --context broker
  kubectl broker audit log --actor alice --kind reserve,end -o wide
  kubectl broker audit log --reservation res-k3v9x2m7qa -o json
  kubectl broker audit log --ended --cluster paris`,
		Args: cobra.NoArgs,
	}
	output := newOutput(cmd, true)
	fs := cmd.Flags()
	o.addFlags(fs)
	fs.StringVar(&o.filter.Actor, "actor", "", "only records whose actor contains this text")
	fs.StringVar(&o.filter.Cluster, "cluster", "", "only records about this cluster, as requester, provider or by itself")
	fs.StringVar(&o.filter.Reservation, "reservation", "", "only records about this reservation (res-...)")
	ended := fs.Bool("ended", false, "list the reservations that have ended instead, the last 20,000, one row each: who, where, how much, how long, why, and what it cost")
	fs.StringSliceVar(&o.filter.Kinds, "kind", nil, "only records of these kinds, such as reserve, end or configure")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.parseTimes(p.now()); err != nil {
			return err
		}
		if err := checkKinds(o.filter.Kinds); err != nil {
			return err
		}
		if *ended {
			return p.listEnded(cmd.Context(), &o, output)
		}
		c, err := p.connectSelected()
		if err != nil {
			return err
		}
		kept, records, err := c.readTrail(cmd.Context(), c.store, o.journal, c.journalNamespace())
		if err != nil {
			return err
		}
		log := &auditLog{TypeMeta: metav1.TypeMeta{APIVersion: view.APIVersion, Kind: "AuditLog"}, Journal: kept.ID, Items: o.filter.Select(records)}
		return p.writeRows(output, log, log.toTable(), nil, "no record matches")
	}
	return cmd
}

func checkKinds(kinds []string) error {
	known := recordKinds()
	for _, k := range kinds {
		if !slices.Contains(known, k) {
			return newUsageError("--kind: no record is of kind %q: there are %s", k, strings.Join(known, ", "))
		}
	}
	return nil
}

func recordKinds() []string {
	kinds := append(ledger.Kinds(), "open", "checkpoint")
	slices.Sort(kinds)
	return kinds
}

func (l *auditLog) toTable() view.Table {
	t := view.Table{Columns: []view.Column{
		{Name: "Position"}, {Name: "Time"}, {Name: "Kind"}, {Name: "Actor"}, {Name: "Requester"}, {Name: "Provider"}, {Name: "Reservation"},
		{Name: "Placement", Wide: true}, {Name: "Hash", Wide: true}, {Name: "Record", Wide: true},
	}}
	for i := range l.Items {
		r := &l.Items[i]
		at, placement := "-", "-"
		if !r.Time.IsZero() {
			at = r.Time.UTC().Format(time.RFC3339)
		}
		if r.Placement != 0 {
			placement = strconv.Itoa(int(r.Placement))
		}
		position := strconv.FormatUint(r.Position, 10)
		t.Rows = append(t.Rows, view.Row{Ref: view.Ref{Kind: "Record", Name: position}, Cells: []string{
			position, at, r.Kind, r.Actor, cmp.Or(r.Requester, r.Cluster, "-"), cmp.Or(r.Provider, "-"), cmp.Or(r.Reservation, "-"),
			placement, r.Hash[:16], string(r.Record),
		}})
	}
	return t
}

// endedLog is the output of audit log --ended.
type endedLog struct {
	metav1.TypeMeta `json:",inline"`
	// Journal is the random ID of the journal.
	Journal string        `json:"journal"`
	Items   []trail.Ended `json:"items"`
}

func (o *logOptions) checkEnded() error {
	if len(o.filter.Kinds) > 0 {
		return newUsageError("--ended lists reservations, which have no --kind")
	}
	return nil
}

func (p *plugin) listEnded(ctx context.Context, o *logOptions, output *output) error {
	if err := o.checkEnded(); err != nil {
		return err
	}
	c, err := p.connectSelected()
	if err != nil {
		return err
	}
	ended, err := replay.ReadEnded(ctx, c.store, o.journal)
	if err != nil {
		return c.explainJournal(o.journal, c.journalNamespace(), err)
	}
	log := &endedLog{
		TypeMeta: metav1.TypeMeta{APIVersion: view.APIVersion, Kind: "EndedReservations"},
		Journal:  ended.Journal, Items: o.filter.SelectEnded(trail.DescribeEnded(ended.Rows)),
	}
	if ended.Missing != "" {
		fmt.Fprintf(p.ErrOut, "not shown: older reservations: %s; see audit verify\n", ended.Missing)
	}
	return p.writeRows(output, log, log.toTable(), nil, "no reservation that ended matches")
}

func (l *endedLog) toTable() view.Table {
	t := view.Table{Columns: []view.Column{
		{Name: "Ended"}, {Name: "Reservation"}, {Name: "Requester"}, {Name: "Providers"}, {Name: "Amounts"}, {Name: "Held"}, {Name: "Reason"}, {Name: "Cost"},
		{Name: "Price per hour", Wide: true}, {Name: "Requested by", Wide: true}, {Name: "Ended by", Wide: true}, {Name: "Message", Wide: true},
	}}
	for i := range l.Items {
		e := &l.Items[i]
		t.Rows = append(t.Rows, view.Row{Ref: view.Ref{Kind: "Reservation", Name: e.Name}, Cells: []string{
			e.EndedAt.UTC().Format(time.RFC3339), e.Name, e.Requester, cmp.Or(strings.Join(e.Providers, ","), "-"), view.FormatAmounts(e.Resources),
			duration.HumanDuration(e.EndedAt.Sub(e.CreatedAt)), e.Reason, cmp.Or(strings.Join(e.Costs, ", "), "-"),
			cmp.Or(e.Price, "-"), cmp.Or(e.RequestedBy, "-"), cmp.Or(e.EndedBy, "-"), cmp.Or(e.Message, "-"),
		}})
	}
	return t
}

// readTrail verifies a journal in the broker's cluster. It returns all that is kept of it, and a description of each
// record.
func (c *connection) readTrail(ctx context.Context, store journal.Store, name, namespace string) (*journal.Kept, []trail.Record, error) {
	kept, err := journal.ReadKept(ctx, store, name, journal.Options{})
	if err != nil {
		return nil, nil, c.explainJournal(name, namespace, err)
	}
	records, err := trail.Read(ctx, kept)
	return kept, records, err
}

// journalNamespace returns the namespace that a flag names, otherwise the default namespace of the
// broker's chart.
func (c *connection) journalNamespace() string {
	if c.explicit {
		return c.namespace
	}
	return defaultNamespace
}

// explainJournal adds the remedy to an error of reading the journal.
func (c *connection) explainJournal(name, namespace string, err error) error {
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return fmt.Errorf("%s has no journal %q in namespace %q: choose the broker's --context, and its namespace with -n: %w", c.describeRoles(), name, namespace, err)
	case isDenied(err):
		return fmt.Errorf("the journal is in ConfigMaps of namespace %q, which you may not read: ask for get and list on them: %w", namespace, err)
	}
	return err
}

func newAuditExportCommand(p *plugin) *cobra.Command {
	o := logOptions{}
	var file string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write records of the journal as JSON lines that can be verified later.",
		Long: `Writes one line of JSON for every record of the journal: its position, time, kind, actor,
requester, provider, reservation, placement, decision, the hashes before and after it, and
the record as it is stored. The last line has the journal, the end of the chain, the sum
of all lines, and the newest of these records that the broker has signed. No record in
between is left out, so 'audit verify FILE' can recompute everything without a cluster,
check the broker's signature, and compare it with what members remember.`,
		Example: `  kubectl broker audit export --context broker --file journal.jsonl
  kubectl broker audit export --since 24h | gzip > journal.jsonl.gz
  kubectl broker audit verify journal.jsonl --member rome`,
		Args: cobra.NoArgs,
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "file", "", "file to write; standard output if unset")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.parseTimes(p.now()); err != nil {
			return err
		}
		c, err := p.connectSelected()
		if err != nil {
			return err
		}
		kept, records, err := c.readTrail(cmd.Context(), c.store, o.journal, c.journalNamespace())
		if err != nil {
			return err
		}
		heads, err := replay.ReadHeads(cmd.Context(), c.store, o.journal)
		if err != nil {
			return err
		}
		var end *trail.End
		err = p.writeExport(file, func(to io.Writer) (err error) {
			end, err = trail.WriteExport(to, kept.ID, o.filter.Within(records), p.now(), heads)
			return err
		})
		if err == nil && end.Signed == nil {
			fmt.Fprintln(p.ErrOut, "not signed: the broker has signed none of these records; it signs the newest one about every 10 minutes if it has a server certificate")
		}
		return err
	}
	return cmd
}

// writeExport calls write with a new file of this name, or with standard output if the name is "".
// It overwrites no file.
func (p *plugin) writeExport(name string, write func(io.Writer) error) (err error) {
	if name == "" {
		return write(p.Out)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(name))
		}
	}()
	return write(file)
}

// verifyExports verifies files that audit export or the broker wrote. The files must belong to one journal, and each
// must begin where the previous one ends. verifyExports does not read from the broker's cluster.
func (p *plugin) verifyExports(ctx context.Context, names []string, o *auditOptions) error {
	anchors, err := p.collectAnchors(ctx, o)
	if err != nil {
		return err
	}
	roots, err := readRoots(o.caFile)
	if err != nil {
		return err
	}
	verified, places, err := checkExport(names[0])
	if err != nil {
		return err
	}
	signed := signatures{roots: roots}
	if err := signed.add(names[0], verified.Signed); err != nil {
		return err
	}
	for i, name := range names[1:] {
		next, more, err := checkExport(name)
		switch {
		case err != nil:
			return err
		case next.ID != verified.ID:
			return fmt.Errorf("%s is of journal %s, and the files before of journal %s: verify each journal by itself", name, next.ID, verified.ID)
		case next.After != verified.Head:
			return fmt.Errorf("%s begins with record %d, and %s ends with record %d: a file is missing, or they are not in order", name, next.After+1, names[i], verified.Head)
		case next.Before != places[verified.Head]:
			return fmt.Errorf("%s does not continue the chain of hashes of %s: a record was exchanged, or the journal was restored in between", name, names[i])
		}
		if err := signed.add(name, next.Signed); err != nil {
			return err
		}
		verified.Head, verified.Segments, verified.Records = next.Head, verified.Segments+1, verified.Records+next.Records
		maps.Copy(places, more)
	}
	// The export proves nothing about anchors before its first or after its last record.
	anchors = slices.DeleteFunc(anchors, func(a journal.Anchor) bool {
		return a.Journal == verified.ID && (a.Position <= verified.After || a.Position > verified.Head)
	})
	found := journal.CompareAnchors(verified.Verified, places, anchors)
	return p.writeFindings(append(describeAudit(&found, o.retention, p.now()), signed.describe(verified.Head)))
}

// signatures are the signed heads in files that are verified in a row.
type signatures struct {
	// roots are the CAs of the broker's server certificate, nil if none was given.
	roots *x509.CertPool
	// newest is the newest signed head, nil if there is none. signer is the certificate that signed it, nil
	// without roots.
	newest *receipt.Head
	signer *x509.Certificate
}

// add verifies the signed head of the file with the given name. The head is nil if the file contains none.
func (s *signatures) add(name string, signed *brokerv1alpha1.Receipt) (err error) {
	switch {
	case signed == nil:
		return nil
	case s.roots == nil:
		s.newest, err = receipt.ReadHead(signed)
	default:
		s.newest, s.signer, err = receipt.VerifyHead(signed, s.roots)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// describe returns a finding about which records, up to the position head, the broker has signed. The finding is a
// failure if the user named a CA and no record is signed.
func (s *signatures) describe(head uint64) view.Finding {
	if s.newest == nil {
		level := view.Normal
		if s.roots != nil {
			level = view.Failure
		}
		return view.Finding{Level: level, Text: "not signed by the broker"}
	}
	line := fmt.Sprintf("up to record %d, at %s", s.newest.Head.Position, s.newest.SignedAt.Format(time.RFC3339))
	if more := head - s.newest.Head.Position; more > 0 {
		line += fmt.Sprintf("; %d newer records are not", more)
	}
	if s.roots == nil {
		return view.Finding{Text: "signed, NOT VERIFIED, use --ca-file: " + line}
	}
	return view.Finding{Text: fmt.Sprintf("signed by %s: %s", strings.Join(namesOfServer(s.signer), ", "), line)}
}

func checkExport(name string) (checked trail.Checked, places map[uint64]string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return checked, nil, err
	}
	defer func() { _ = file.Close() }()
	if checked, places, err = trail.CheckExport(file); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return checked, places, err
}
