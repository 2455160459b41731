// Command playground runs a broker and three member clusters on this machine. See
// playground --help.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mehdiazizian/liqo-resource-broker/cmd/playground/app"
)

func main() {
	if err := app.Command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		os.Exit(1)
	}
}
