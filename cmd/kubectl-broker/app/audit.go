package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// Defaults of the broker's chart.
const (
	defaultJournal   = "liqo-resource-broker"
	defaultNamespace = "liqo-resource-broker"
	defaultRetention = 24 * time.Hour
)

func newAuditCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read, export and verify the broker's journal, and verify receipts, also while the broker is down.",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newAuditLogCommand(p), newAuditExportCommand(p), newAuditVerifyCommand(p), newAuditReceiptCommand(p))
	return cmd
}

// auditOptions are the flags of audit verify.
type auditOptions struct {
	journal   string
	members   []string
	files     []string
	receipts  []string
	caFile    string
	retention time.Duration
}

func newAuditVerifyCommand(p *plugin) *cobra.Command {
	o := auditOptions{}
	cmd := &cobra.Command{
		Use:   "verify [FILE...]",
		Short: "Check that no record of the journal was changed, and ask members what they know of it.",
		Long: `Reads the journal's ConfigMaps in the broker's cluster and recomputes every hash.

Whoever can write these ConfigMaps can recompute the hashes too. So agents keep places of
the journal that the broker told them, in status.anchors of their Advertisement. --member
reads them in a member's cluster, --advertisement from a file that its operator sent. A
receipt (--receipt) contains a place, too; prove it first with audit receipt --verify. An
anchor proves every record up to its position. Records after the newest anchor, of the
last minutes, are proved by their hashes alone.

It also compares the stored periods of the accounts and the history of ended reservations
with the journal.

With FILEs it verifies what 'audit export' or a channel of files wrote, compressed or not,
and needs no cluster. Each file must continue where the one before has ended. With
--ca-file it checks that the broker has signed them: a signature proves every record up to
its position, also those in earlier files.

It exits with 1 if anything does not fit together.`,
		Example: `  kubectl broker audit verify --context broker --member rome --member paris
  kubectl --context rome get advertisements -A -o yaml > rome.yaml
  kubectl broker audit verify --advertisement rome.yaml
  kubectl broker audit verify journal.jsonl --advertisement rome.yaml
  kubectl broker audit verify archive/*.jsonl.gz --ca-file ca.crt --advertisement rome.yaml`,
	}
	fs := cmd.Flags()
	addJournalFlag(fs, &o.journal)
	fs.StringSliceVar(&o.members, "member", nil, "context of a member's cluster whose anchors are compared; several are possible")
	fs.StringSliceVar(&o.files, "advertisement", nil, "file with a member's Advertisement, or a list of them; several are possible")
	fs.StringSliceVar(&o.receipts, "receipt", nil, "file with a receipt whose place in the journal is compared, see audit receipt; several are possible")
	fs.StringVar(&o.caFile, "ca-file", "", "CA of the broker's server certificate in PEM, to check the broker's signature in FILEs; several are possible in one file")
	fs.DurationVar(&o.retention, "retention", defaultRetention, "how long the broker keeps its journal (journal.retention of the chart)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return p.verifyExports(cmd.Context(), args, &o)
		}
		if o.caFile != "" {
			return newUsageError("--ca-file checks the signature in exported FILEs: name one")
		}
		return p.verifyJournal(cmd.Context(), &o)
	}
	return cmd
}

func (p *plugin) verifyJournal(ctx context.Context, o *auditOptions) error {
	c, err := p.connectSelected()
	if err != nil {
		return err
	}
	anchors, err := p.collectAnchors(ctx, o)
	if err != nil {
		return err
	}
	found, err := verifyStored(ctx, c.store, o, anchors, p.now())
	if err != nil {
		return c.explainJournal(o.journal, c.journalNamespace(), err)
	}
	return p.writeFindings(found)
}

// verifyStored verifies the journal in a store, the stored periods of its accounts and its stored history, and compares
// it with anchors.
func verifyStored(ctx context.Context, store journal.Store, o *auditOptions, anchors []journal.Anchor, now time.Time) ([]view.Finding, error) {
	found, err := journal.VerifyAnchored(ctx, store, o.journal, journal.Options{}, anchors)
	if err != nil {
		return nil, err
	}
	periods, batches, err := replay.VerifyStored(ctx, store, o.journal)
	if err != nil {
		return nil, err
	}
	return slices.Concat(describeAudit(&found, o.retention, now),
		describeStored("accounts", "closed periods", "periods", periods),
		describeStored("history", "batches of ended reservations", "batches", batches)), nil
}

// writeFindings prints what an audit has found, and returns errAttention if anything is wrong.
func (p *plugin) writeFindings(found []view.Finding) error {
	wrong := false
	for _, f := range found {
		wrong = wrong || f.Level == view.Failure
		fmt.Fprintln(p.Out, view.Clean(f.Text)) // an exported file may have been edited to look verified
	}
	if wrong {
		return errAttention
	}
	return nil
}

// describeStored says what the journal proves about what is stored beside it.
func describeStored(subject, proved, unproved string, found *replay.Verified) (out []view.Finding) {
	for _, wrong := range found.Wrong {
		out = append(out, view.Finding{Level: view.Failure, Text: fmt.Sprintf("WRONG %s: %s", strings.ToUpper(subject), wrong)})
	}
	if found.Proved > 0 {
		out = append(out, view.Finding{Text: fmt.Sprintf("%s: %d %s have the rows that the journal names", subject, found.Proved, proved)})
	}
	if n := len(found.Unproved); n > 0 {
		out = append(out, view.Finding{Text: fmt.Sprintf("%s: nothing proves %d older %s, up to %s", subject, n, unproved, found.Unproved[n-1])})
	}
	return out
}

// describeAudit says whether the records of a journal fit together and agree with anchors. retention is how long the
// broker keeps its records.
func describeAudit(found *journal.Anchored, retention time.Duration, now time.Time) (out []view.Finding) {
	note := func(level view.Level, format string, args ...any) {
		out = append(out, view.Finding{Level: level, Text: fmt.Sprintf(format, args...)})
	}
	note(view.Normal, "journal %s: records %d to %d in %d objects fit together", found.ID, found.After+1, found.Head, found.Segments)
	wrong := len(found.Disagreed) > 0
	for _, d := range found.Disagreed {
		note(view.Failure, "DISAGREES with %s, told at %s: %s", d.By, d.At.UTC().Format(time.RFC3339), d.Why)
	}
	trimmed := found.Trimmed
	if !found.AtLimit {
		trimmed = nil
		for _, a := range found.Trimmed {
			if now.Sub(a.At) >= retention {
				trimmed = append(trimmed, a)
				continue
			}
			note(view.Failure, "MISSING: %s was told of position %d at %s, which the journal no longer has although it keeps %s", a.By, a.Position, a.At.UTC().Format(time.RFC3339), retention)
			wrong = true
		}
	}
	kept := retention.String()
	if found.AtLimit {
		kept = fmt.Sprintf("at most %d sealed segments", found.Segments-1)
	}
	// The journal proves nothing about anchors that are older than its records.
	old := linesByMember(trimmed, func(a journal.Anchor, count int) string {
		return fmt.Sprintf("trimmed by retention (%s): what %s was told until %s, up to record %d (%d anchors)", kept, a.By, a.At.UTC().Format(time.RFC3339), a.Position, count)
	})
	agreed := linesByMember(found.Agreed, func(a journal.Anchor, count int) string {
		return fmt.Sprintf("agrees with %s up to record %d, told at %s (%d anchors)", a.By, a.Position, a.At.UTC().Format(time.RFC3339), count)
	})
	for _, line := range append(old, agreed...) {
		note(view.Normal, "%s", line)
	}
	if !wrong && len(found.Agreed) == 0 {
		note(view.Normal, "not compared with any member: whoever can write the journal could have recomputed all hashes; use --member or --advertisement")
	}
	return out
}

// linesByMember returns a line for each member, which describe makes from its newest anchor and the number of its anchors.
func linesByMember(anchors []journal.Anchor, describe func(newest journal.Anchor, count int) string) (lines []string) {
	newest, count := map[string]journal.Anchor{}, map[string]int{}
	for _, a := range anchors {
		if count[a.By]++; a.Position > newest[a.By].Position {
			newest[a.By] = a
		}
	}
	for by, a := range newest {
		lines = append(lines, describe(a, count[by]))
	}
	slices.Sort(lines)
	return lines
}

// collectAnchors returns the anchors in the Advertisements of members, which it reads from their clusters and
// from files.
func (p *plugin) collectAnchors(ctx context.Context, o *auditOptions) ([]journal.Anchor, error) {
	var out []journal.Anchor
	for _, member := range o.members {
		c, err := p.connectTo(member)
		if err != nil {
			return nil, err
		}
		var list agentv1alpha1.AdvertisementList
		if err := c.List(ctx, &list); err != nil {
			return nil, fmt.Errorf("context %q: reading Advertisements: %w", member, err)
		}
		if out, err = appendAnchors(out, list.Items, fmt.Sprintf("context %q", member)); err != nil {
			return nil, err
		}
	}
	for _, file := range o.files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var read struct {
			agentv1alpha1.Advertisement `json:",inline"`
			Items                       []agentv1alpha1.Advertisement `json:"items"`
		}
		if err := yaml.Unmarshal(text, &read); err != nil {
			return nil, fmt.Errorf("%s: it is no Advertisement: %w", file, err)
		}
		if !strings.HasSuffix(read.Kind, "List") {
			read.Items = []agentv1alpha1.Advertisement{read.Advertisement}
		}
		if out, err = appendAnchors(out, read.Items, file); err != nil {
			return nil, err
		}
	}
	for _, file := range o.receipts {
		v := &receiptView{from: file}
		if err := v.readFile(file); err != nil {
			return nil, err
		}
		s, err := receipt.Read(&v.Receipt)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, journal.Anchor{Journal: s.Journal.ID, Position: s.Journal.Position, Hash: s.Journal.Hash, At: s.SignedAt, By: file})
	}
	return out, nil
}

// appendAnchors adds the anchors in Advertisements to out. It returns an error for a source without any
// anchors, because it would prove nothing.
func appendAnchors(out []journal.Anchor, all []agentv1alpha1.Advertisement, source string) ([]journal.Anchor, error) {
	before := len(out)
	for i := range all {
		for _, a := range all[i].Status.Anchors {
			out = append(out, journal.Anchor{Journal: a.Journal, Position: uint64(max(a.Position, 0)), Hash: a.Hash, At: a.At.Time, By: all[i].Spec.ClusterID})
		}
	}
	if len(out) == before {
		return nil, fmt.Errorf("%s has no anchors in status.anchors of an Advertisement: its agent has not been told one yet", source)
	}
	return out, nil
}
