package app

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
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

// completeFirst returns a function that completes the first argument of a command with the names that list returns.
func (p *plugin) completeFirst(list func(context.Context, *connection) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		c, err := p.connectSelected()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names, err := list(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}

// listNames returns the names that the command why accepts, with their kinds.
func listNames(ctx context.Context, c *connection) (names []string, err error) {
	snapshot, err := c.gatherObjects(ctx, c.scopeNamespace(), time.Time{}, whole)
	if err != nil {
		return nil, err
	}
	for _, r := range snapshot.Names() {
		names = append(names, r.Name+"\t"+r.Kind)
	}
	return names, nil
}

func listClusters(ctx context.Context, c *connection) (ids []string, err error) {
	var list brokerv1alpha1.ClusterAdvertisementList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		ids = append(ids, list.Items[i].Spec.ClusterID)
	}
	return ids, nil
}

func listPending(ctx context.Context, c *connection) (ids []string, err error) {
	config, err := c.readConfig(ctx)
	if err != nil {
		return nil, err
	}
	for _, pending := range config.Status.PendingEnrolments {
		ids = append(ids, pending.ClusterID)
	}
	return ids, nil
}

func listChannels(ctx context.Context, c *connection) ([]string, error) {
	config, err := c.readConfig(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for i := range config.Spec.Notifications {
		names = append(names, config.Spec.Notifications[i].Name)
	}
	return names, nil
}
