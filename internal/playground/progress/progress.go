// Package progress shows the progress of a long operation that consists of steps.
package progress

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Reporter receives the steps of an operation. Its methods may be called concurrently.
type Reporter interface {
	// Plan announces that n more steps will follow.
	Plan(n int)
	// Begin starts a step. The function that it returns ends the step.
	Begin(step string) (end func())
}

// Discard is a Reporter that ignores all steps.
var Discard Reporter = discard{}

type discard struct{}

func (discard) Plan(int)            {}
func (discard) Begin(string) func() { return func() {} }

// Func is a Reporter that calls a function with each finished step, for example the Log of a test.
type Func func(step string)

// Plan implements Reporter. It ignores the number of steps.
func (Func) Plan(int) {}

// Begin implements Reporter.
func (f Func) Begin(step string) func() { return func() { f(step) } }

// Printer is a Reporter that writes one line for each finished step. It also shows which steps are still running.
type Printer struct {
	clock   clock.WithTicker
	started time.Time

	mu      sync.Mutex // guards the fields below
	out     io.Writer
	live    bool
	planned int
	done    int
	active  []*activity
}

type activity struct {
	step  string
	since time.Time
}

var _ Reporter = (*Printer)(nil)

// NewPrinter returns a Printer that writes to out. If live is true, out is a terminal, and the Printer shows the
// running steps in the last line and rewrites this line. Otherwise it repeats the running steps every 15 s.
func NewPrinter(out io.Writer, live bool, c clock.WithTicker) *Printer {
	return &Printer{out: out, live: live, clock: c, started: c.Now()}
}

// Plan implements Reporter.
func (p *Printer) Plan(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned += n
}

// Begin implements Reporter.
func (p *Printer) Begin(step string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &activity{step: step, since: p.clock.Now()}
	p.active = append(p.active, a)
	p.refresh()
	return sync.OnceFunc(func() { p.end(a) })
}

func (p *Printer) end(a *activity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active = slices.DeleteFunc(p.active, func(b *activity) bool { return a == b })
	p.done++
	p.clear()
	took := p.clock.Since(a.since)
	p.printf("[%*d/%d %6.1fs] %s (%.1fs)\n", len(fmt.Sprint(p.total())), p.done, p.total(), p.elapsed(), a.step, took.Seconds())
	p.refresh()
}

// Run shows the running steps again and again until ctx ends.
func (p *Printer) Run(ctx context.Context) {
	every := 15 * time.Second
	if p.live {
		every = 200 * time.Millisecond
	}
	ticker := p.clock.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.mu.Lock()
			p.clear()
			p.mu.Unlock()
			return
		case <-ticker.C():
			p.remind()
		}
	}
}

func (p *Printer) remind() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.refresh()
		return
	}
	for _, a := range p.active {
		p.printf("[%d/%d %6.1fs] still: %s (%.0fs)\n", p.done, p.total(), p.elapsed(), a.step, p.clock.Since(a.since).Seconds())
	}
}

// refresh rewrites the last line of the terminal, if out is one and steps are running.
func (p *Printer) refresh() {
	if !p.live || len(p.active) == 0 {
		return
	}
	steps := make([]string, len(p.active))
	for i, a := range p.active {
		steps[i] = a.step
	}
	line := fmt.Sprintf("[%d/%d %6.1fs] %s ...", p.done, p.total(), p.elapsed(), strings.Join(steps, ", "))
	const width = 79 // a longer line would wrap, and could not be rewritten
	if r := []rune(line); len(r) > width {
		line = string(r[:width-3]) + "..."
	}
	p.clear()
	p.printf("%s", line)
}

func (p *Printer) clear() {
	if p.live {
		p.printf("\r\x1b[K")
	}
}

// total returns the planned number of steps, or the number of steps that have begun if this is larger, because a
// caller may plan too few.
func (p *Printer) total() int { return max(p.planned, p.done+len(p.active)) }

func (p *Printer) elapsed() float64 { return p.clock.Since(p.started).Seconds() }

// printf ignores write errors, because the operation must continue even if its progress cannot be shown.
func (p *Printer) printf(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format, args...) }
