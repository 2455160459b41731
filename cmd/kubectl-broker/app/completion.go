package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// kubectlScript returns the script that kubectl calls to complete the command lines of a plugin. program is the
// name of the plugin's executable file.
func kubectlScript(program string) string {
	return `#!/bin/sh
# Install it as ` + strings.Replace(program, "kubectl-", "kubectl_complete-", 1) + ` beside ` + program + `.
exec ` + program + ` __complete "$@"
`
}

func newCompletionCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion kubectl|bash|zsh|fish|powershell",
		Short: "Print a completion script.",
		Long: `Prints a completion script. kubectl completes its plugins through a program called
kubectl_complete-PLUGIN: install that once, and every shell with kubectl's own
completion also completes kubectl broker. The other scripts complete kubectl-broker.`,
		Example: `  kubectl broker completion kubectl > ~/bin/kubectl_complete-broker
  chmod +x ~/bin/kubectl_complete-broker`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"kubectl", "bash", "zsh", "fish", "powershell"},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch args[0] {
		case "kubectl":
			_, err := io.WriteString(p.Out, kubectlScript(p.program))
			return err
		case "bash":
			return root.GenBashCompletionV2(p.Out, true)
		case "zsh":
			return root.GenZshCompletion(p.Out)
		case "fish":
			return root.GenFishCompletion(p.Out, true)
		}
		return root.GenPowerShellCompletionWithDesc(p.Out)
	}
	return cmd
}

// completionTimeout limits how long a shell waits for names.
const completionTimeout = 3 * time.Second

// completeNames lists the names that begin with prefix and that the command why accepts, for the first
// argument only.
func (p *plugin) completeNames(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, err := p.connectSelected(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	snapshot, err := c.gatherObjects(ctx, c.scopeNamespace(), p.now(), whole)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, r := range snapshot.Names() {
		if name := fmt.Sprintf("%s\t%s", r.Name, r.Kind); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}
