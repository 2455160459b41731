// Package checkup checks an installation without changing it. It prints one line for each check,
// which says whether something works. If it does not work, a second line says what to do.
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

// perCheck is the time limit of one check.
const perCheck = 15 * time.Second

// Level is how serious a finding is.
type Level string

// Levels of findings.
const (
	// OK means that the checked part works.
	OK Level = "ok"
	// Skipped means that the part could not be checked, or is not in use.
	Skipped Level = "skip"
	// Warning means that the part works, but needs attention.
	Warning Level = "warn"
	// Failed means that the part does not work.
	Failed Level = "FAIL"
)

// Finding is the result of one check.
type Finding struct {
	Level Level
	// Message says what the check found. Advice says what to do about it.
	Message, Advice string
}

// Found returns a finding of level OK.
func Found(format string, args ...any) Finding {
	return Finding{Level: OK, Message: fmt.Sprintf(format, args...)}
}

// Skip returns a finding of level Skipped. The message says why the check did not run.
func Skip(format string, args ...any) Finding {
	return Finding{Level: Skipped, Message: fmt.Sprintf(format, args...)}
}

// Warn returns a finding of level Warning, about something that works but needs attention.
func Warn(advice, format string, args ...any) Finding {
	return Finding{Level: Warning, Message: fmt.Sprintf(format, args...), Advice: advice}
}

// Fail returns a finding of level Failed, about something that does not work.
func Fail(advice, format string, args ...any) Finding {
	return Finding{Level: Failed, Message: fmt.Sprintf(format, args...), Advice: advice}
}

// Check is a check of one part of the installation.
type Check struct {
	// Subject is the name of the checked part.
	Subject string
	Look    func(context.Context) Finding
}

// Known returns a check whose finding is known already.
func Known(subject string, f Finding) Check {
	return Check{subject, func(context.Context) Finding { return f }}
}

// Body returns the body of a cobra command. The command connects to the cluster, runs the checks
// and prints their findings.
func Body(
	kinds func() (*runtime.Scheme, error), checks func(context.Context, *rest.Config, client.Client) ([]Check, error),
) func(*cobra.Command, []string) error {
	return cluster.RunOnce(kinds, func(cmd *cobra.Command, _ []string, config *rest.Config, c client.Client) error {
		checks, err := checks(cmd.Context(), config, c)
		if err != nil {
			return err
		}
		return Run(cmd.Context(), cmd.OutOrStdout(), checks)
	})
}

// Run runs the checks in order, each for at most perCheck, and prints each finding as soon as it is
// known. If checks fail, it returns an error with their number.
func Run(ctx context.Context, out io.Writer, checks []Check) error {
	failed := 0
	for _, check := range checks {
		bounded, cancel := context.WithTimeout(ctx, perCheck)
		finding := check.Look(bounded)
		cancel()
		if finding.Level == Failed {
			failed++
		}
		_, err := fmt.Fprintf(out, "%-4s  %s: %s\n", finding.Level, check.Subject, finding.Message)
		if err == nil && finding.Advice != "" {
			_, err = fmt.Fprintf(out, "      -> %s\n", finding.Advice)
		}
		if err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	return nil
}
