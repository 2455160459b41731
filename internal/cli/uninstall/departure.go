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
	// shown is the maximum number of lines of Departure.InUse that are printed. For the other
	// lines, only their number is printed.
	shown = 10
	// pollInterval is how often a drain checks what is still in use.
	pollInterval = time.Second
	// progressInterval is how often a drain prints what is still in use if the number of lines has
	// not changed.
	progressInterval = 15 * time.Second
	// stayTimeout limits Departure.Stay.
	stayTimeout = 10 * time.Second
)

// Departure decides whether an installation may be deleted. If something is in use, Policy says
// what happens: Departure refuses the deletion, ends everything in use first, or allows the
// deletion at once.
type Departure struct {
	Policy Policy
	// Timeout is how long a drain may take.
	Timeout time.Duration
	// InUse returns one line for each thing that the deletion of the installation would destroy.
	InUse func(context.Context) ([]string, error)
	// Leave, if not nil, tells others to stop using the installation. It returns once they know, or
	// an error that says what they may still do. Departure calls Leave before it ends anything, but
	// not if the policy Refuse forbids the deletion at once. An error of Leave does not stop the
	// deletion.
	Leave func(context.Context) error
	// Stay undoes Leave, and is required if Leave is set. Departure calls it if the deletion is
	// refused after Leave.
	Stay func(context.Context) error
	// End begins to end everything in use. A drain calls it repeatedly until nothing is in use.
	End func(context.Context) error
	// Advice tells the user how to end manually what is in use.
	Advice string
	// Clock measures the time of a drain.
	Clock clock.WithTicker
}

// Run applies the policy. It returns nil if the installation may be deleted now.
func (d Departure) Run(ctx context.Context, out io.Writer) error {
	if d.Policy == Ignore {
		_, err := fmt.Fprintln(out, "policy Ignore: leaving everything in use as it is")
		return err
	}
	inUse, err := d.InUse(ctx)
	switch {
	case err != nil:
		return err
	case len(inUse) > 0 && d.Policy == Refuse:
		return d.refuseUninstall(out, inUse)
	case d.Leave == nil:
		return d.endUses(ctx, out, inUse)
	}
	if err := d.Leave(ctx); err != nil {
		if _, err := fmt.Fprintf(out, "warning: %v\n", err); err != nil {
			return err
		}
	}
	// Others may have begun to use something before Leave returned.
	if inUse, err = d.InUse(ctx); err == nil {
		err = d.endUses(ctx, out, inUse)
	}
	if err == nil {
		return nil
	}
	// Stay must run even if ctx has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stayTimeout)
	defer cancel()
	return errors.Join(err, d.Stay(ctx))
}

// endUses applies the policy to what is in use: Refuse returns an error, Drain ends it.
func (d Departure) endUses(ctx context.Context, out io.Writer, inUse []string) error {
	switch {
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

// drainUses waits until nothing is in use, and returns an error after Timeout. It calls End
// again and again, because something new may come into use while it waits.
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

// indentLines returns the first lines, indented, and the number of the other lines.
func indentLines(lines []string) string {
	rest := ""
	if len(lines) > shown {
		rest = fmt.Sprintf("\n  and %d more", len(lines)-shown)
		lines = lines[:shown]
	}
	return "  " + strings.Join(lines, "\n  ") + rest
}
