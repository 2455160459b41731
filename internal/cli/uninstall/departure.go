package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

const (
	// shown is the number of entries in use that are printed; the rest is counted.
	shown = 10
	// pollInterval is how often a drain checks what is still in use.
	pollInterval = time.Second
	// tellEvery is how often a drain without progress prints what is left.
	progressInterval = 15 * time.Second
)

// Departure runs before an installation is deleted.
type Departure struct {
	Policy Policy
	// Timeout bounds a drain.
	Timeout time.Duration
	// InUse returns what an uninstallation would destroy, one line each.
	InUse func(context.Context) ([]string, error)
	// End asks for the end of everything in use. Drain repeats it until nothing is left.
	End func(context.Context) error
	// Advice tells the user how to end it by hand.
	Advice string
	// Clock measures the drain.
	Clock clock.WithTicker
}

// Run returns nil if the installation may be deleted now.
func (d Departure) Run(ctx context.Context, out io.Writer) error {
	if d.Policy == Ignore {
		_, err := fmt.Fprintln(out, "policy Ignore: leaving everything in use as it is")
		return err
	}
	inUse, err := d.InUse(ctx)
	switch {
	case err != nil:
		return err
	case len(inUse) == 0:
		_, err := fmt.Fprintln(out, "nothing is in use")
		return err
	case d.Policy == Refuse:
		return d.refuseUninstall(out, inUse)
	}
	return d.drainUses(ctx, out, inUse)
}

func (d Departure) refuseUninstall(out io.Writer, inUse []string) error {
	if _, err := fmt.Fprintf(out, "in use:\n%s\n%s\n", indentLines(inUse), d.Advice); err != nil {
		return err
	}
	return fmt.Errorf("not uninstalled: %d in use, the first: %s (policy Refuse)", len(inUse), inUse[0])
}

// drainUses repeats End, because new entries may appear while it waits.
func (d Departure) drainUses(ctx context.Context, out io.Writer, inUse []string) error {
	deadline := d.Clock.Now().Add(d.Timeout)
	look := d.Clock.NewTicker(pollInterval)
	defer look.Stop()
	told, tell := -1, time.Time{}
	for len(inUse) > 0 {
		now := d.Clock.Now()
		if !now.Before(deadline) {
			return fmt.Errorf("not uninstalled: after %s still in use:\n%s\n%s", d.Timeout, indentLines(inUse), d.Advice)
		}
		if len(inUse) != told || !now.Before(tell) {
			if _, err := fmt.Fprintf(out, "%d in use, waiting %s at most:\n%s\n", len(inUse), deadline.Sub(now).Round(time.Second), indentLines(inUse)); err != nil {
				return err
			}
			told, tell = len(inUse), now.Add(progressInterval)
		}
		trouble := d.End(ctx)
		select {
		case <-look.C():
		case <-ctx.Done():
			return errors.Join(ctx.Err(), trouble)
		}
		var err error
		if inUse, err = d.InUse(ctx); err != nil {
			return errors.Join(err, trouble)
		}
		if trouble != nil {
			if _, err := fmt.Fprintln(out, trouble); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintln(out, "drained: nothing is in use")
	return err
}

// indentLines returns the first lines, indented, and counts the rest.
func indentLines(lines []string) string {
	rest := ""
	if len(lines) > shown {
		rest = fmt.Sprintf("\n  and %d more", len(lines)-shown)
		lines = lines[:shown]
	}
	return "  " + strings.Join(lines, "\n  ") + rest
}
