package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// output holds the flag --output of a command, with the printers for its formats.
type output struct {
	flags *genericclioptions.PrintFlags
	// wide is true if the command supports -o wide, which prints more columns.
	wide bool
	// own are further formats, which the command prints itself.
	own []string
}

// Formats that this package prints itself. kubectl's printers print all others.
const (
	formatText = ""
	formatWide = "wide"
	formatName = "name"
)

// newOutput adds the flag --output and the related flags of kubectl's printers to a command. own are formats that the
// command prints itself.
func newOutput(cmd *cobra.Command, wide bool, own ...string) *output {
	o := &output{flags: genericclioptions.NewPrintFlags(""), wide: wide, own: own}
	o.flags.AddFlags(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.checkFormat() }
	if f := cmd.Flags().Lookup("output"); f != nil {
		formats := append([]string{formatName}, o.flags.JSONYamlPrintFlags.AllowedFormats()...)
		if wide {
			formats = append(formats, formatWide)
		}
		formats = slices.Concat(formats, own, o.flags.TemplatePrinterFlags.AllowedFormats())
		f.Usage = "format of the output: " + strings.Join(formats, ", ") + "; text for people if unset"
	}
	return o
}

func (o *output) chosenFormat() string { return *o.flags.OutputFormat }

// isText reports whether the output is text for people.
func (o *output) isText() bool {
	return o.chosenFormat() == formatText || o.wide && o.chosenFormat() == formatWide
}

func (o *output) checkFormat() error {
	if o.isText() || o.chosenFormat() == formatName || slices.Contains(o.own, o.chosenFormat()) {
		return nil
	}
	if _, err := o.flags.ToPrinter(); err != nil {
		return usageError{fmt.Errorf("--output: %w", err)}
	}
	return nil
}

// writeView prints a view in a format for programs. With -o name it prints only the names of the
// objects.
func (o *output) writeView(out io.Writer, viewed any, names []view.Ref) error {
	if o.chosenFormat() == formatName {
		printer := &printers.NamePrinter{}
		for _, r := range names {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
			object.SetGroupVersionKind(schema.GroupVersionKind{Group: r.Group(), Version: "v1", Kind: r.Kind})
			if err := printer.PrintObj(object, out); err != nil {
				return err
			}
		}
		return nil
	}
	printer, err := o.flags.ToPrinter()
	if err != nil {
		return err
	}
	text, err := json.Marshal(viewed)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &object.Object); err != nil {
		return err
	}
	return printer.PrintObj(object, out)
}

// colours are the terminal's codes for red and yellow.
var colours = map[view.Level]string{view.Failure: "\x1b[31m", view.Warning: "\x1b[33m"}

// painter returns a function that colours text. It leaves text unchanged if the output is not a
// terminal or NO_COLOR is set (https://no-color.org).
func (p *plugin) painter() view.Paint {
	plain := func(_ view.Level, text string) string { return text }
	file, ok := p.Out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return plain
	}
	return func(level view.Level, text string) string {
		if colours[level] == "" {
			return text
		}
		return colours[level] + text + "\x1b[0m"
	}
}
