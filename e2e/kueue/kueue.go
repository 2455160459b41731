// Package kueue runs jobs of the real Kueue in the playground, on local nodes first and on borrowed nodes next.
package kueue

import (
	"context"
	"errors"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/kueue"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Environment is a playground with Kueue in rome.
type Environment struct {
	*local.Environment
	manager *process.Process
}

// Install adds Kueue to a playground, and lets rome's agent serve ProvisioningRequests. If that fails, it stops the
// playground.
func Install(ctx context.Context, env *local.Environment, report progress.Reporter) (_ *Environment, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, env.Stop())
		}
	}()
	tools, err := toolchain.New(report)
	if err != nil {
		return nil, err
	}
	manager, err := kueue.Start(ctx, env.Playground.Clusters["rome"].ControlPlane, tools)
	if err != nil {
		return nil, err
	}
	values := env.Product.Values("rome")
	values["autoscaling"] = map[string]any{"provisioningRequests": map[string]any{"enabled": true}}
	return &Environment{Environment: env, manager: manager}, env.Product.Upgrade(ctx, "rome", values)
}

// Logs returns the paths of the log files of the broker, the agents and Kueue.
func (e *Environment) Logs() []string { return append(e.Environment.Logs(), e.manager.Log()) }
