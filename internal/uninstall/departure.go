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
	// shown is how much of what is in use is named; the rest is counted.
	shown = 10
	// lookEvery is how often a drain looks what is left.
	lookEvery = time.Second
	// tellEvery is how often a drain that comes to nothing new says so.
	tellEvery = 15 * time.Second
)

// Departure is what comes before an installation is deleted.
type Departure struct {
	Policy Policy
	// Timeout is how long a drain may take.
	Timeout time.Duration
	// InUse says what would be lost, a line each.
	InUse func(context.Context) ([]string, error)
	// End asks for the end of everything in use. It is repeated until nothing is.
	End func(context.Context) error
	// Advice says how to end it by hand.
	Advice string
	// Clock of the drain.
	Clock clock.WithTicker
}

// Run returns nil if the installation may be deleted now.
func (d Departure) Run(ctx context.Context, out io.Writer) error {
	if d.Policy == Ignore {
		_, err := fmt.Fprintln(out, "policy Ignore: whatever is in use stays as it is")
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
		return d.refuse(out, inUse)
	}
	return d.drain(ctx, out, inUse)
}

func (d Departure) refuse(out io.Writer, inUse []string) error {
	if _, err := fmt.Fprintf(out, "in use:\n%s\n%s\n", list(inUse), d.Advice); err != nil {
		return err
	}
	return fmt.Errorf("not uninstalled: %d in use, the first: %s (policy Refuse)", len(inUse), inUse[0])
}

// drain goes on asking: while it waits, something new may come into use.
func (d Departure) drain(ctx context.Context, out io.Writer, inUse []string) error {
	deadline := d.Clock.Now().Add(d.Timeout)
	look := d.Clock.NewTicker(lookEvery)
	defer look.Stop()
	told, tell := -1, time.Time{}
	for len(inUse) > 0 {
		now := d.Clock.Now()
		if !now.Before(deadline) {
			return fmt.Errorf("not uninstalled: after %s still in use:\n%s\n%s", d.Timeout, list(inUse), d.Advice)
		}
		if len(inUse) != told || !now.Before(tell) {
			if _, err := fmt.Fprintf(out, "%d in use, waiting %s at most:\n%s\n", len(inUse), deadline.Sub(now).Round(time.Second), list(inUse)); err != nil {
				return err
			}
			told, tell = len(inUse), now.Add(tellEvery)
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
	_, err := fmt.Fprintln(out, "drained: nothing is in use any more")
	return err
}

// list names the first of many, a line each.
func list(lines []string) string {
	rest := ""
	if len(lines) > shown {
		rest = fmt.Sprintf("\n  and %d more", len(lines)-shown)
		lines = lines[:shown]
	}
	return "  " + strings.Join(lines, "\n  ") + rest
}
