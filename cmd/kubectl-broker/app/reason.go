package app

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

type explanations struct {
	metav1.TypeMeta `json:",inline"`
	Items           []view.Term `json:"items"`
}

func newReasonCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reason WORD",
		Short: "Explain a condition or reason, and say what to do about it.",
		Long: `Explains any condition or reason of this product: what it means for each kind of
object, and the remedy. It asks no cluster.`,
		Example: `  kubectl broker reason NoCandidate
  kubectl broker reason insufficient`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			var words []string
			for _, word := range view.Words() {
				if len(args) == 0 && strings.HasPrefix(strings.ToLower(word), strings.ToLower(prefix)) {
					words = append(words, word)
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
	}
	output := newOutput(cmd, false)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		found := view.Explain(args[0])
		if len(found) == 0 {
			similar := view.SimilarWords(args[0])
			if len(similar) != 1 {
				return newUsageError("no condition or reason is called %q; similar: %s", args[0], strings.Join(similar, ", "))
			}
			found = view.Explain(similar[0])
		}
		if output.isText() {
			return writeTerms(p.Out, found)
		}
		return output.writeView(p.Out, explanations{metav1.TypeMeta{APIVersion: view.APIVersion, Kind: "Explanations"}, found}, nil)
	}
	return cmd
}

func writeTerms(out io.Writer, found []view.Term) error {
	var text strings.Builder
	fmt.Fprintln(&text, found[0].Word)
	for _, t := range found {
		fmt.Fprintf(&text, "\n  %s of %s", t.Kind, t.Subject)
		if t.Note != "" {
			fmt.Fprintf(&text, " (%s)", view.PlainText(t.Note))
		}
		verb := "means"
		if t.Kind == view.Condition {
			verb = "True when"
		}
		if t.Subject == view.OfCandidate {
			verb = "the cluster"
		}
		fmt.Fprintf(&text, "\n    %s: %s\n", verb, view.PlainText(t.Means))
		if t.Do != "" {
			fmt.Fprintf(&text, "    do: %s\n", view.PlainText(t.Do))
		}
		links := slices.Concat(view.Links(t.Means), view.Links(t.Do))
		for _, address := range links {
			fmt.Fprintf(&text, "    see: %s\n", address)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
