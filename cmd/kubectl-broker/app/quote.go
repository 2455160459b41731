package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

type quoteFlags struct {
	reserveFlags
	hold time.Duration
}

func newQuoteCommand(p *plugin) *cobra.Command {
	f := &quoteFlags{}
	cmd := &cobra.Command{
		Use:   "quote [NAME]",
		Short: "Ask who would serve a request and at what price, or hold that decision.",
		Long: `Shows which cluster would serve a request now, at what price, and why the others would
not. Nothing is held: it makes a server-side dry run of a ResourceRequest in a member
cluster, or of a Reservation in the broker's cluster, and needs the right to create one.

With --hold it makes a Quote, in a member cluster: the capacity is locked for that time,
and kubectl broker reserve --quote takes it over. It exits with 1 if no cluster can serve
the request.`,
		Example: `  kubectl broker quote --cpu 2 --memory 4Gi --for 8h
  kubectl broker quote my-quote --cpu 2 --memory 4Gi --for 8h --hold 5m
  kubectl broker reserve my-request --cpu 2 --memory 4Gi --for 8h --quote my-quote`,
		Args: cobra.MaximumNArgs(1),
	}
	f.bindDemand(cmd)
	cmd.Flags().DurationVar(&f.hold, "hold", 0, "lock the capacity for this time, in a Quote")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for the answer to a Quote")
	output := newOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.quoteRequest(cmd.Context(), strings.Join(args, ""), f, output)
	}
	return cmd
}

func (p *plugin) quoteRequest(ctx context.Context, name string, f *quoteFlags, output *output) error {
	amounts, err := f.parseAmounts()
	if err != nil {
		return err
	}
	if f.hold < 0 || f.hold > 0 && name == "" {
		return newUsageError("--hold makes a Quote: give its name, and a time above zero")
	}
	if f.hold > 0 && f.queue {
		return newUsageError("--hold locks capacity now: leave --queue out")
	}
	heard := &view.Warnings{}
	c, err := openCluster(p.cluster, heard)
	if err != nil {
		return err
	}
	if f.hold > 0 {
		return p.holdQuote(ctx, c, name, amounts, f, output)
	}
	if name == "" {
		name = "quote"
	}
	d, err := f.buildDemand(c, name, amounts)
	if err != nil {
		return err
	}
	// A generated name never conflicts with an existing object.
	d.SetName("")
	d.SetGenerateName(name + "-")
	return p.previewRequest(ctx, c, d.Object, heard, output)
}

// previewRequest creates the request in a dry run, and prints the quote that it finds in the
// warnings. It returns an error if there is no quote, or if no cluster can serve the request now.
func (p *plugin) previewRequest(ctx context.Context, c *connection, o client.Object, heard *view.Warnings, output *output) error {
	if err := c.Create(ctx, o, client.DryRunAll); err != nil {
		return err
	}
	quote, others := view.ParseWarnings(heard.List())
	for _, warning := range others {
		fmt.Fprintln(p.ErrOut, "Warning:", view.Clean(warning))
	}
	if quote == nil {
		return errors.New("the dry run returned no quote: the webhooks are off, or are those of another release")
	}
	if err := p.writeRows(output, quote, quote.Table(), nil, "no other cluster"); err != nil {
		return err
	}
	switch {
	case quote.Problem != "":
		return errors.New("no quote: " + view.Clean(quote.Problem))
	case quote.Provider != "":
		return nil
	}
	for _, advice := range quote.Advice {
		fmt.Fprintln(p.ErrOut, "what helps against", view.Clean(advice))
	}
	if quote.Waits {
		return errors.New("no cluster can serve it now: it would wait in the queue")
	}
	return errors.New("no cluster can serve it now")
}

func (p *plugin) holdQuote(ctx context.Context, c *connection, name string, amounts corev1.ResourceList, f *quoteFlags, output *output) error {
	d, err := f.buildDemand(c, name, amounts)
	if err != nil {
		return err
	}
	if d.Request == nil {
		return newUsageError("a Quote is made in a member cluster: name one with --context; without --hold, the broker's cluster shows quotes, too")
	}
	q := &agentv1alpha1.Quote{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Spec: agentv1alpha1.QuoteSpec{
		CPU: d.Request.Spec.CPU, Memory: d.Request.Spec.Memory, Resources: d.Request.Spec.Resources, Priority: d.Request.Spec.Priority,
		Duration: d.Request.Spec.Duration, Hold: &metav1.Duration{Duration: f.hold},
	}}
	if err := c.Create(ctx, q); err != nil {
		return err
	}
	late := func() error { return fmt.Errorf("no answer after %s: %s", f.timeout, view.Clean(q.Status.Message)) }
	err = c.await(ctx, f.timeout, q, late, func() (bool, error) { return q.Status.Phase == agentv1alpha1.QuoteHeld || q.IsOver(), nil })
	if err != nil {
		return err
	}
	held := view.NewHeldQuote(q)
	if err := p.writeRows(output, held, held.Table(), nil, ""); err != nil {
		return err
	}
	if q.Status.Phase != agentv1alpha1.QuoteHeld {
		return errors.New("nothing is held: " + view.Clean(q.Status.Message))
	}
	return nil
}
