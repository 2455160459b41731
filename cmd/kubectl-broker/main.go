// Command kubectl-broker is the kubectl plugin; see kubectl broker --help.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mehdiazizian/liqo-resource-broker/cmd/kubectl-broker/app"
)

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(app.Run(ctrl.SetupSignalHandler(), streams, os.Args))
}
