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
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
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

// newAction makes a command carry out a change with run. asks is true if the command asks for confirmation; then it
// also gets the flag --yes, which suppresses the question.
func (p *plugin) newAction(cmd *cobra.Command, asks bool, run func(ctx context.Context, a *action, args []string) error) *cobra.Command {
	a := &action{plugin: p}
	cmd.Flags().StringVar(&a.dryRun, "dry-run", "none", "none, or server: check the change with the API server and store nothing")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunServer
	if asks {
		cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if a.dryRun != "none" && !a.isDry() {
			return newUsageError("--dry-run must be none or server, not %q", a.dryRun)
		}
		return run(cmd.Context(), a, args)
	}
	return cmd
}

func (a *action) isDry() bool { return a.dryRun == dryRunServer }

// change asks the question, if there is one, makes a change, and prints what was done. In a dry run, the client that it
// passes to edit makes the API server store nothing.
func (a *action) change(c *connection, question string, edit func(client.Client) (done string, err error)) error {
	if err := a.confirmChange(question); err != nil {
		return err
	}
	to, note := client.Client(c), ""
	if a.isDry() {
		to, note = client.NewDryRunClient(c), " (server dry run)"
	}
	done, err := edit(to)
	if err != nil || done == "" {
		return err
	}
	_, err = fmt.Fprintln(a.Out, done+note)
	return err
}

// changeConfig edits the BrokerConfig, and creates it if there is none. edit returns what is printed.
func (a *action) changeConfig(ctx context.Context, c *connection, question string, edit func(*brokerv1alpha1.BrokerConfig) (string, error)) error {
	return a.change(c, question, func(to client.Client) (done string, err error) {
		err = edits.PatchOrCreate(ctx, to, edits.NewConfig(), func(config *brokerv1alpha1.BrokerConfig) (err error) {
			done, err = edit(config)
			return err
		})
		return done, err
	})
}

// changeBroker connects to the broker's cluster and edits the BrokerConfig there, see changeConfig.
func (a *action) changeBroker(ctx context.Context, question string, edit func(*brokerv1alpha1.BrokerConfig) (string, error)) error {
	c, err := a.connectBroker()
	if err != nil {
		return err
	}
	return a.changeConfig(ctx, c, question, edit)
}

// changeDemand edits the ResourceRequest or Reservation that a user named by its own name, by the name of its
// reservation, or by the name of a placement. It returns an error for a Reservation that only shows the request of an
// agent. question is "", or has verbs for the short name and the namespace of the object. edit returns what is printed
// after the short name.
func (a *action) changeDemand(ctx context.Context, name, question string, edit func(edits.Demand) (string, error)) error {
	isDemand := func(kind string) bool { return kind == "ResourceRequest" || kind == "Reservation" }
	query, known := view.ParseQuery(name, "")
	if !known || query.Kind != "" && !isDemand(query.Kind) {
		return newUsageError("%q is no request: name a ResourceRequest (rreq/NAME) or Reservation (rsv/NAME)", name)
	}
	c, err := a.connectSelected()
	if err != nil {
		return err
	}
	query.Namespace = c.namespace
	snapshot, err := c.gatherObjects(ctx, c.scopeNamespace(), a.now(), whole)
	if err != nil {
		return err
	}
	subject, err := pickSubject(c, snapshot, query)
	if err != nil {
		return err
	}
	if !isDemand(subject.Kind) {
		return newUsageError("%s is no request: name a ResourceRequest or Reservation", subject.Short())
	}
	d := edits.NewDemand(subject.Kind, client.ObjectKey{Namespace: subject.Namespace, Name: subject.Name})
	if err := c.Get(ctx, client.ObjectKeyFromObject(d), d.Object); err != nil {
		return err
	}
	if err := d.CheckOwner(); err != nil {
		return err
	}
	if question != "" {
		question = fmt.Sprintf(question, subject.Short(), subject.Namespace)
	}
	return a.change(c, question, func(to client.Client) (done string, err error) {
		err = edits.Patch(ctx, to, d.Object, func(client.Object) (err error) {
			done, err = edit(d)
			return err
		})
		return subject.Short() + " " + done, err
	})
}

// confirmChange asks the user on the terminal whether to continue, and returns an error unless the answer is yes. It
// returns nil without asking if there is no question, and with --yes or --dry-run. Without a terminal, it otherwise
// returns an error.
func (a *action) confirmChange(question string) error {
	if question == "" || a.yes || a.isDry() {
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

// await reads an object repeatedly until done returns true or an error. After the timeout it returns the error of late.
func (c *connection) await(ctx context.Context, timeout time.Duration, o client.Object, late func() error, done func() (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return false, err
		}
		return done()
	})
	if wait.Interrupted(err) {
		return late()
	}
	return err
}
