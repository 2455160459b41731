package robustness

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	clients = 8
	// slotsEach is the number of reservations that a client has at once.
	slotsEach = 2
	clusters  = 5
	// capacity of each cluster, in slots.
	capacity = 4
)

type verb string

const (
	reserve verb = "reserve"
	release verb = "release"
	read    verb = "read"
)

// call is a client's call about one of its reservations.
type call struct {
	verb         verb
	client, mine int
	slots        int8
}

// outcome is the answer to a call. cluster is the cluster of the grant. It is the constant none if there was no grant.
type outcome struct {
	cluster int8
	phase   phase
}

type phase string

const (
	granted  phase = "Reserved"
	refused  phase = "refused"
	released phase = "Released"
)

const none = -1

// holding is a client's current reservation in one of its places.
type holding struct {
	cluster, slots int8
	held           bool
}

// state is the state of the sequential model that the broker must behave like.
type state struct {
	free     [clusters]int8
	holdings [clients][slotsEach]holding
}

func begin() any {
	var s state
	for i := range s.free {
		s.free[i] = capacity
	}
	return s
}

// step reports whether an outcome is correct in a state, and returns the next state.
func step(before, in, out any) (bool, any) {
	s, c, o := before.(state), in.(call), out.(outcome)
	h := &s.holdings[c.client][c.mine]
	switch c.verb {
	case reserve:
		if o.phase == refused {
			for _, free := range s.free {
				if free >= c.slots {
					return false, before
				}
			}
			return true, before
		}
		if h.held || o.cluster < 0 || s.free[o.cluster] < c.slots {
			return false, before
		}
		s.free[o.cluster] -= c.slots
		*h = holding{cluster: o.cluster, slots: c.slots, held: true}
		return true, s
	case release:
		if !h.held || o.phase != released {
			return false, before
		}
		s.free[h.cluster] += h.slots
		h.held = false
		return true, s
	default:
		if h.held {
			return o.phase == granted && o.cluster == h.cluster, before
		}
		return o.phase == released, before
	}
}

var model = porcupine.Model{
	Init: begin,
	Step: step,
	DescribeOperation: func(in, out any) string {
		c, o := in.(call), out.(outcome)
		return fmt.Sprintf("%s %d.%d %d -> %s %d", c.verb, c.client, c.mine, c.slots, o.phase, o.cluster)
	},
}

// history is the list of all calls and outcomes.
type history struct {
	began time.Time

	mu         sync.Mutex
	operations []porcupine.Operation
}

func newHistory() *history { return &history{began: time.Now()} }

func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) add(c call, called int64, o outcome, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: c.client, Input: c, Output: o, Call: called, Return: returned})
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.operations)
}

// check fails the test unless the history is linearizable. It writes a visualization of an incorrect history beside
// the test's output.
func (h *history) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	result, info := porcupine.CheckOperationsVerbose(model, h.operations, 2*time.Minute)
	t.Logf("history of %d operations: %s", len(h.operations), result)
	if result == porcupine.Ok {
		return
	}
	picture := filepath.Join(t.ArtifactDir(), "history.html")
	t.Errorf("history of %d operations is not linearizable: %s; see %s, %v", len(h.operations), result, picture,
		porcupine.VisualizePath(model, info, picture))
}

func TestModelRejectsWrongOutcomes(t *testing.T) {
	type did struct {
		call call
		out  outcome
	}
	reserves := func(client int, slots int8, cluster int8) did {
		return did{call{reserve, client, 0, slots}, outcome{cluster, granted}}
	}
	releases := func(client int) did { return did{call{release, client, 0, 0}, outcome{none, released}} }
	refuses := func(client int, slots int8) did {
		return did{call{reserve, client, 0, slots}, outcome{none, refused}}
	}
	tests := map[string]struct {
		did  []did
		want porcupine.CheckResult
	}{
		"what fits is granted":                     {[]did{reserves(0, 3, 1), reserves(1, 1, 1)}, porcupine.Ok},
		"what does not fit is not":                 {[]did{reserves(0, 3, 1), reserves(1, 2, 1)}, porcupine.Illegal},
		"what was given back is free":              {[]did{reserves(0, 3, 1), releases(0), reserves(1, 4, 1)}, porcupine.Ok},
		"what is not held is not given back":       {[]did{releases(0)}, porcupine.Illegal},
		"a refusal is right only where it is full": {[]did{refuses(0, 1)}, porcupine.Illegal},
		"nothing is larger than a cluster":         {[]did{refuses(0, capacity+1)}, porcupine.Ok},
		"a reservation does not vanish": {[]did{
			reserves(0, 1, 1), {call{read, 0, 0, 0}, outcome{1, released}}}, porcupine.Illegal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var operations []porcupine.Operation
			for i, d := range test.did {
				operations = append(operations, porcupine.Operation{Input: d.call, Output: d.out, Call: int64(2 * i), Return: int64(2*i + 1)})
			}
			if got := porcupine.CheckOperationsTimeout(model, operations, time.Minute); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
