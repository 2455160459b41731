// Command agent runs the agent; see agent --help.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mehdiazizian/liqo-resource-broker/cmd/agent/app"
)

func main() {
	if err := app.Command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
