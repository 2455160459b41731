package liqo

import (
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// stopwatch measures the steps of handshakes. It keeps its state in memory, so it does not measure
// a step during which the agent restarts.
type stopwatch struct {
	// observe is called with the duration of each finished step. It may be nil.
	observe func(plan.HandshakeStep, time.Duration)

	mu    sync.Mutex // guards steps
	steps map[handshake.Pair]timedStep
}

type timedStep struct {
	step  plan.HandshakeStep
	since time.Time
}

func newStopwatch(observe func(plan.HandshakeStep, time.Duration)) *stopwatch {
	return &stopwatch{observe: observe, steps: map[handshake.Pair]timedStep{}}
}

// noteStep records the current step of a pair's handshake. If the step recorded before comes
// earlier in a handshake, it is now finished, and noteStep passes its duration to observe. If the
// handshake starts again, nothing is observed.
func (w *stopwatch) noteStep(pair handshake.Pair, step plan.HandshakeStep, now time.Time) {
	if w.observe == nil || step == plan.NoStep {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, underWay := w.steps[pair]
	switch {
	case last.step == step:
		return
	case step == plan.HandshakeDone:
		delete(w.steps, pair)
	default:
		w.steps[pair] = timedStep{step, now}
	}
	if underWay && last.step.Before(step) {
		w.observe(last.step, now.Sub(last.since))
	}
}

func (w *stopwatch) forgetPair(pair handshake.Pair) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.steps, pair)
}
