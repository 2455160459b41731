package app

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

func newVersionCommand(p *plugin) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Out, version.String())
			return err
		},
	}
}
