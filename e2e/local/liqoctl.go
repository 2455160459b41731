package local

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Liqoctl runs liqoctl with the credentials of a consumer.
func (e *Environment) Liqoctl(ctx context.Context, consumer string, args ...string) error {
	tools, err := toolchain.New(progress.Discard)
	if err != nil {
		return err
	}
	if err := tools.Ensure(ctx, toolchain.Liqoctl); err != nil {
		return err
	}
	args = append(args, "--skip-confirm", "--kubeconfig", e.Playground.Kubeconfig(), "--context", consumer)
	if out, err := exec.CommandContext(ctx, tools.Path(toolchain.Liqoctl), args...).CombinedOutput(); err != nil {
		return fmt.Errorf("liqoctl %v: %w\n%s", args, err, out)
	}
	return nil
}

// Peer peers two clusters with liqoctl. It leaves out networking.
func (e *Environment) Peer(ctx context.Context, consumer, provider string, args ...string) error {
	return e.Liqoctl(ctx, consumer, append([]string{"peer", "--networking-disabled"}, e.remote(provider, args)...)...)
}

// Unpeer ends a peering with liqoctl, and deletes the objects that liqoctl leaves behind.
func (e *Environment) Unpeer(ctx context.Context, consumer, provider string) error {
	if err := e.Liqoctl(ctx, consumer, append([]string{"unpeer", "--delete-namespaces"}, e.remote(provider, nil)...)...); err != nil {
		return err
	}
	for _, side := range []struct{ in, of string }{{consumer, provider}, {provider, consumer}} {
		foreign := e2e.Object(e2e.ForeignClusterKind, "", side.of)
		if err := e.Member(side.in).DeleteAndWait(ctx, foreign, readyWithin); err != nil {
			return err
		}
	}
	return nil
}

func (e *Environment) remote(provider string, args []string) []string {
	return append(args, "--remote-kubeconfig", e.Playground.Kubeconfig(), "--remote-context", provider)
}
