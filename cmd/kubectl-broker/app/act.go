package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/edits"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// action holds the flags of a command that changes something, and carries out the change.
type action struct {
	*plugin
	dryRun string
	yes    bool
}

// dryRunServer is the value of --dry-run with which the API server checks a change but does not store it.
const dryRunServer = "server"

// bindFlags adds the flags. asks is true if the command asks for confirmation; then it also gets the flag --yes, which
// suppresses the question.
func (a *action) bindFlags(cmd *cobra.Command, asks bool) {
	cmd.Flags().StringVar(&a.dryRun, "dry-run", "none", "none, or server: check the change with the API server and store nothing")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunServer
	if asks {
		cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	}
}

// checkFlags returns an error if a flag has an invalid value.
func (a *action) checkFlags() error {
	if a.dryRun != "none" && a.dryRun != dryRunServer {
		return newUsageError("--dry-run must be none or server, not %q", a.dryRun)
	}
	return nil
}

func (a *action) isDry() bool { return a.dryRun == dryRunServer }

// dryRunNote returns the end of the message about a change: empty, or a remark that nothing was stored.
func (a *action) dryRunNote() string {
	if a.isDry() {
		return " (server dry run)"
	}
	return ""
}

// confirmChange asks the user on the terminal whether to continue, and returns an error unless the answer is yes. It
// returns nil without asking with --yes or --dry-run. Without a terminal, it otherwise returns an error.
func (a *action) confirmChange(question string) error {
	if a.yes || a.isDry() {
		return nil
	}
	file, ok := a.In.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return newUsageError("%s Give --yes: there is no terminal to ask on", question)
	}
	fmt.Fprint(a.ErrOut, question+" [y/N] ")
	answer, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// clientOf returns a client with which the API server stores nothing if the command is a dry run.
func (a *action) clientOf(c *connection) client.Client {
	if a.isDry() {
		return client.NewDryRunClient(c)
	}
	return c
}

// demand adds to a Demand what only commands need.
type demand struct{ edits.Demand }

// readStatus returns the phase, message and conditions in the status. current is true if the status describes the
// current generation.
func (d demand) readStatus() (phase, message string, conditions []metav1.Condition, current bool) {
	if r := d.Reservation; r != nil {
		return string(r.Status.Phase), r.Status.Message, r.Status.Conditions, r.Status.ObservedGeneration == r.Generation
	}
	r := d.Request
	return string(r.Status.Phase), r.Status.Message, r.Status.Conditions, r.Status.ObservedGeneration == r.Generation
}

// findDemand finds the ResourceRequest or Reservation that a user named by its own name, by the name of its
// reservation, or by the name of a placement. It returns an error for a Reservation that only shows the request of an
// agent.
func (p *plugin) findDemand(ctx context.Context, name string) (*connection, demand, error) {
	query, known := view.ParseQuery(name, "")
	if !known || query.Kind != "" && query.Kind != "ResourceRequest" && query.Kind != "Reservation" {
		return nil, demand{}, newUsageError("%q is no request: name a ResourceRequest (rreq/NAME) or Reservation (rsv/NAME)", name)
	}
	c, err := p.connectSelected(ctx)
	if err != nil {
		return nil, demand{}, err
	}
	query.Namespace = c.namespace
	snapshot, err := c.gatherObjects(ctx, c.scopeNamespace(), p.now(), whole)
	if err != nil {
		return nil, demand{}, err
	}
	subject, err := pickSubject(c, snapshot, query)
	if err != nil {
		return nil, demand{}, err
	}
	if subject.Kind != "ResourceRequest" && subject.Kind != "Reservation" {
		return nil, demand{}, newUsageError("%s is no request: name a ResourceRequest or Reservation", subject.Short())
	}
	d := demand{edits.NewDemand(subject.Kind, client.ObjectKey{Namespace: subject.Namespace, Name: subject.Name})}
	if err := c.Get(ctx, client.ObjectKeyFromObject(d), d.Object); err != nil {
		return nil, demand{}, err
	}
	if err := d.CheckOwner(); err != nil {
		return nil, demand{}, err
	}
	return c, d, nil
}

// awaitDemand reads a request repeatedly until done returns true or an error, or until the timeout. It prints each
// new phase and message.
func (a *action) awaitDemand(ctx context.Context, c *connection, d demand, timeout time.Duration, done func(phase string, current bool, conditions []metav1.Condition) (bool, error)) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(d), d.Object); err != nil {
			return false, err
		}
		phase, message, conditions, current := d.readStatus()
		if line := view.Clean(phase + ": " + message); line != last && current {
			fmt.Fprintln(a.ErrOut, line)
			last = line
		}
		return done(phase, current, conditions)
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("not done after %s: kubectl broker why %s -n %s says why", timeout, d.Ref().Short(), d.GetNamespace())
	}
	return err
}
