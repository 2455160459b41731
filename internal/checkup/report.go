// Package checkup asks an installation how it is, and says it in lines that people
// read: what is well, what is not, and what to do about it. It changes nothing.
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

	"github.com/mehdiazizian/liqo-resource-broker/internal/home"
)

// perCheck is how long one check may take.
const perCheck = 15 * time.Second

// Level is how serious a finding is.
type Level string

// Levels of findings.
const (
	// OK: as it should be.
	OK Level = "ok"
	// Skipped: it could not be looked at, or is not in use.
	Skipped Level = "skip"
	// Warning: it works, and somebody should look.
	Warning Level = "warn"
	// Failed: it does not work.
	Failed Level = "FAIL"
)

// Finding is what one check says.
type Finding struct {
	Level Level
	// Message says what was found, Advice what to do about it.
	Message, Advice string
}

// Found says that all is well.
func Found(format string, args ...any) Finding {
	return Finding{Level: OK, Message: fmt.Sprintf(format, args...)}
}

// Skip says why nothing was looked at.
func Skip(format string, args ...any) Finding {
	return Finding{Level: Skipped, Message: fmt.Sprintf(format, args...)}
}

// Warn says what may become a failure.
func Warn(advice, format string, args ...any) Finding {
	return Finding{Level: Warning, Message: fmt.Sprintf(format, args...), Advice: advice}
}

// Fail says what does not work.
func Fail(advice, format string, args ...any) Finding {
	return Finding{Level: Failed, Message: fmt.Sprintf(format, args...), Advice: advice}
}

// Check looks at one thing.
type Check struct {
	// Subject is what is looked at.
	Subject string
	Look    func(context.Context) Finding
}

// Body is that of a command which looks at its cluster and prints what it finds.
func Body(
	kinds func() (*runtime.Scheme, error), checks func(*rest.Config, client.Client) ([]Check, error),
) func(*cobra.Command, []string) error {
	return home.Visit(kinds, func(cmd *cobra.Command, _ []string, config *rest.Config, c client.Client) error {
		checks, err := checks(config, c)
		if err != nil {
			return err
		}
		return Run(cmd.Context(), cmd.OutOrStdout(), checks)
	})
}

// Run does the checks in order and writes a line for each, as soon as it is known.
// The error counts the failures.
func Run(ctx context.Context, out io.Writer, checks []Check) error {
	failed := 0
	for _, check := range checks {
		bounded, cancel := context.WithTimeout(ctx, perCheck)
		finding := check.Look(bounded)
		cancel()
		if finding.Level == Failed {
			failed++
		}
		if err := write(out, check.Subject, finding); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed", failed, len(checks))
	}
	return nil
}

func write(out io.Writer, subject string, f Finding) error {
	_, err := fmt.Fprintf(out, "%-4s  %s: %s\n", f.Level, subject, f.Message)
	if err == nil && f.Advice != "" {
		_, err = fmt.Fprintf(out, "      -> %s\n", f.Advice)
	}
	return err
}
