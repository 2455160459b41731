// Package app is the command line of the kubectl plugin.
package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs may name any of kubectl's auth plugins

	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// Exit codes.
const (
	exitDone = 0
	// exitAttention means that something needs attention, or that the command failed.
	exitAttention = 1
	// exitUsage means that the command line is wrong.
	exitUsage = 2
)

// errAttention is returned by a command that has already printed the problems that it found. It only
// determines the exit code.
var errAttention = errors.New("something needs attention")

// usageError is an error in the command line that a command finds after its flags were parsed.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func newUsageError(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// plugin holds what all commands share.
type plugin struct {
	genericiooptions.IOStreams
	cluster *genericclioptions.ConfigFlags
	now     func() time.Time
	// program is the name of the executable file: kubectl-broker, or kubectl-liqo_broker as Krew installs it.
	program string
	// started is true once the command line is valid.
	started bool
}

// Run executes the plugin and returns its exit code. args[0] is the path of the program, see displayName.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	return runAt(ctx, streams, args, time.Now)
}

func runAt(ctx context.Context, streams genericiooptions.IOStreams, args []string, now func() time.Time) int {
	p := &plugin{IOStreams: streams, cluster: genericclioptions.NewConfigFlags(true), now: now, program: filepath.Base(args[0])}
	cmd := p.newCommand(args[0])
	cmd.SetArgs(args[1:])
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errAttention) {
		return exitAttention
	}
	fmt.Fprintln(streams.ErrOut, "error:", err)
	if _, wrong := errors.AsType[usageError](err); wrong || !p.started {
		fmt.Fprintf(streams.ErrOut, "See '%s --help' for usage.\n", displayName(args[0]))
		return exitUsage
	}
	return exitAttention
}

// displayName returns the command by which users call the program at path: "kubectl broker" for
// kubectl-broker, and for programs whose names do not begin with kubectl-.
func displayName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if rest, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(rest, "_", "-")
	}
	return "kubectl broker"
}

func (p *plugin) newCommand(path string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-broker",
		Short: "See and use the capacity that clusters lend to each other.",
		Long: `Shows what needs attention in a federation of clusters, why a request has or has no
capacity, and what every condition and reason means.

It works in the broker's cluster and in member clusters, finds out which one it talks
to, and shows what you may read there. It exits with 0 if all is well, 1 if
something needs attention or failed, and 2 if it was called wrongly.`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: displayName(path)},
		Version:           version.String(),
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { p.started = true },
	}
	cmd.SetIn(p.In)
	cmd.SetOut(p.Out)
	cmd.SetErr(p.ErrOut)
	p.cluster.AddFlags(cmd.PersistentFlags())
	cmd.AddGroup(&cobra.Group{ID: groupLook, Title: "Look:"}, &cobra.Group{ID: groupAct, Title: "Act:"}, &cobra.Group{ID: groupAudit, Title: "Audit:"}, &cobra.Group{ID: groupOther, Title: "Other:"})
	addCommands(cmd, groupLook, newStatusCommand(p), newWhyCommand(p), newReasonCommand(p), newTopCommand(p), newQueueCommand(p), newCostCommand(p), newPlanCommand(p), newWatchCommand(p), newConsoleCommand(p))
	addCommands(cmd, groupAct, newQuoteCommand(p), newReserveCommand(p), newReleaseCommand(p), newExtendCommand(p), newResizeCommand(p), newDrainCommand(p), newUndrainCommand(p), newEnrolmentsCommand(p), newApproveCommand(p), newDenyCommand(p), newNotifyCommand(p))
	addCommands(cmd, groupAudit, newAuditCommand(p))
	addCommands(cmd, groupOther, newCheckCommand(p), newBundleCommand(p), newVersionCommand(p), newCompletionCommand(p))
	cmd.SetHelpCommandGroupID(groupOther)
	return cmd
}

// Groups under which the help lists the commands.
const (
	groupLook  = "look"
	groupAct   = "act"
	groupAudit = "audit"
	groupOther = "other"
)

func addCommands(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
	}
	root.AddCommand(commands...)
}

func newVersionCommand(p *plugin) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Out, version.String())
			return err
		},
	}
}
