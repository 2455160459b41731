package charttest

import (
	"testing"

	agent "github.com/mehdiazizian/liqo-resource-broker/cmd/agent/app"
	broker "github.com/mehdiazizian/liqo-resource-broker/cmd/broker/app"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
)

// Every flag in a pod's arguments exists in its program.
func TestFlagsOfPodsExist(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		program := broker.Command
		if deploymentOf(t, rendered).Labels["app.kubernetes.io/component"] == "agent" {
			program = agent.Command
		}
		for _, p := range pods(t, rendered) {
			for _, container := range p.spec.Containers {
				cmd, args, err := program().Find(container.Args)
				if err == nil {
					err = cmd.ParseFlags(args)
				}
				if err == nil {
					err = cmd.ValidateArgs(cmd.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s does not start with %q: %v", p.name, container.Args, err)
				}
			}
		}
	})
}
