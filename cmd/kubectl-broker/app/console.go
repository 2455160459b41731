package app

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

func newConsoleCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show the cluster's objects in a browser.",
		Long: `Serves the web console on this computer until it is interrupted, and opens it in a
browser. It reads the cluster with your credentials, so it shows what you may list and
needs nothing installed in the cluster but the product itself. In the broker's cluster
it shows clusters, reservations, the queue, costs, plans and the audit log; in a member
its requests, quotes and what it lends. It changes nothing without --actions. Nobody else
can open it: its address contains a key.`,
		Example: `  kubectl broker console
  kubectl broker console --context rome --port 8080 --open=false`,
		Args: cobra.NoArgs,
	}
	port := cmd.Flags().Uint16("port", 0, "port on the loopback address; any free one if 0")
	open := cmd.Flags().Bool("open", true, "open a browser; with false only print the address")
	actions := cmd.Flags().Bool("actions", false, "let pages change objects with your rights: reserve, extend, release, call back, approve, drain")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.serveConsole(cmd.Context(), *port, *open, *actions)
	}
	return cmd
}

func (p *plugin) serveConsole(ctx context.Context, port uint16, open, actions bool) error {
	c, err := p.connectSelected()
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("%w: choose another port with --port", err)
	}
	defer func() { _ = listener.Close() }() // Serve has already closed it, unless Serve was not called
	p.noteRemark("reading %s ...", c.describeRoles())
	options := console.PersonalOptions{
		Config: c.config, Scheme: c.Scheme(), Namespace: c.namespace, Broker: c.broker, Member: c.member,
		Name: c.context, Flags: c.flags, Version: version.String(), Actions: actions, Now: p.now,
	}
	if c.broker {
		options.Journal = &consoleJournal{plugin: p, connection: c}
	}
	server, err := console.OpenPersonal(ctx, options)
	if err != nil {
		return err
	}
	address := server.Address(listener)
	if _, err := fmt.Fprintln(p.Out, address); err != nil {
		return err
	}
	p.noteRemark("Ctrl-C ends it")
	if open {
		if err := openBrowser(ctx, server.AddressForOneBrowser(listener)); err != nil {
			p.noteRemark("no browser opened (%v): open the address above yourself", err)
		}
	}
	return server.Serve(ctx, listener)
}

// openBrowser opens an address in the user's browser, with the command of the operating system.
func openBrowser(ctx context.Context, address string) error {
	command := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open"}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	return exec.CommandContext(ctx, command[0], append(command[1:], address)...).Start()
}
