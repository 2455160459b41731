// Package checkup checks an installation and prints one line per check: what works, what does
// not, and what to do about it. It changes nothing.
package checkup

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
)

// perCheck is the timeout of one check.
const perCheck = 15 * time.Second

// Level is how serious a finding is.
type Level string

// Levels of findings.
const (
	// OK: it works.
	OK Level = "ok"
	// Skipped: it could not be checked, or is not in use.
	Skipped Level = "skip"
	// Warning: it works, but needs attention.
	Warning Level = "warn"
	// Failed: it does not work.
	Failed Level = "FAIL"
)

// Finding is the result of one check.
type Finding struct {
	Level Level
	// Message says what was found, Advice what to do about it.
	Message, Advice string
}

// Found returns a finding of level OK.
func Found(format string, args ...any) Finding {
	return Finding{Level: OK, Message: fmt.Sprintf(format, args...)}
}

// Skip returns a finding that says why the check did not run.
func Skip(format string, args ...any) Finding {
	return Finding{Level: Skipped, Message: fmt.Sprintf(format, args...)}
}

// Warn returns a finding about something that may become a failure.
func Warn(advice, format string, args ...any) Finding {
	return Finding{Level: Warning, Message: fmt.Sprintf(format, args...), Advice: advice}
}

// Fail returns a finding about something that does not work.
func Fail(advice, format string, args ...any) Finding {
	return Finding{Level: Failed, Message: fmt.Sprintf(format, args...), Advice: advice}
}

// Check is one check and the part of the installation it covers.
type Check struct {
	// Subject names what is checked.
	Subject string
	Look    func(context.Context) Finding
}

// Body makes the body of a command that runs checks on its cluster and prints the findings.
func Body(
	kinds func() (*runtime.Scheme, error), checks func(*rest.Config, client.Client) ([]Check, error),
) func(*cobra.Command, []string) error {
	return cluster.RunOnce(kinds, func(cmd *cobra.Command, _ []string, config *rest.Config, c client.Client) error {
		checks, err := checks(config, c)
		if err != nil {
			return err
		}
		return Run(cmd.Context(), cmd.OutOrStdout(), checks)
	})
}

// Run runs the checks in order and prints each finding as soon as it is known. The error counts
// the failures.
func Run(ctx context.Context, out io.Writer, checks []Check) error {
	failed := 0
	for _, check := range checks {
		bounded, cancel := context.WithTimeout(ctx, perCheck)
		finding := check.Look(bounded)
		cancel()
		if finding.Level == Failed {
			failed++
		}
		if err := printFinding(out, check.Subject, finding); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	return nil
}

func printFinding(out io.Writer, subject string, f Finding) error {
	_, err := fmt.Fprintf(out, "%-4s  %s: %s\n", f.Level, subject, f.Message)
	if err == nil && f.Advice != "" {
		_, err = fmt.Fprintf(out, "      -> %s\n", f.Advice)
	}
	return err
}
