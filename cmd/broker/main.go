// Command broker runs the broker; see broker --help.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mehdiazizian/liqo-resource-broker/cmd/broker/app"
)

func main() {
	if err := app.Command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
