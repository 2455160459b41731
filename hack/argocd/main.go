// Command argocd runs the parts of Argo CD that sync applications:
//
//	argocd application-controller|applicationset-controller|repo-server [flags of Argo CD]
//	argocd redis ADDRESS
//
// It leaves out Argo CD's API server with its user interface, because syncing does not need them. For Argo CD,
// Redis is only a cache. Here miniredis replaces it, which Argo CD's own tests use, too.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"

	appcontroller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	applicationset "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/argoproj/argo-cd/v3/util/askpass"
)

func main() {
	// The path is relative to the working directory, so that several repo servers can run on one machine.
	askpass.SocketPath = "ask-pass.sock"
	cmd := &cobra.Command{Use: "argocd", Short: "The parts of Argo CD that sync applications.", SilenceUsage: true}
	for name, component := range map[string]*cobra.Command{
		"application-controller":    appcontroller.NewCommand(),
		"applicationset-controller": applicationset.NewCommand(),
		"repo-server":               reposerver.NewCommand(),
	} {
		component.Use = name
		cmd.AddCommand(component)
	}
	cmd.AddCommand(&cobra.Command{
		Use: "redis ADDRESS", Short: "The cache of the other parts.", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return serveRedis(args[0]) },
	})
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "argocd:", err)
		os.Exit(1)
	}
}

// serveRedis serves the cache until the process gets a signal to end.
func serveRedis(address string) error {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(address); err != nil {
		return err
	}
	defer server.Close()
	go func() {
		// Cached entries expire only if miniredis is told that time passes.
		for range time.Tick(time.Second) {
			server.FastForward(time.Second)
		}
	}()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	return nil
}
