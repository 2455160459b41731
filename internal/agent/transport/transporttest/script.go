package transporttest

import (
	"context"
	"errors"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// errDown is the answer of a broker that is down.
var errDown = errors.New("connection refused")

// Fail makes the next calls of an operation fail, one per error.
func (b *Broker) Fail(operation Operation, errs ...error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[operation] = append(b.failures[operation], errs...)
}

// SetDown makes the broker unreachable over a Direct, or reachable again.
func (b *Broker) SetDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
	b.notifyChange()
}

// SetBeforeAnswer sets what runs after a reservation is stored and before the requester gets
// the answer. An error loses the answer.
func (b *Broker) SetBeforeAnswer(f func(ctx context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beforeAnswer = f
}

// Instruct adds an instruction for a cluster.
func (b *Broker) Instruct(clusterID string, instruction v1.Instruction) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.position++
	b.instructions[clusterID] = append(b.instructions[clusterID], entry[v1.Instruction]{b.position, instruction})
	b.notifyChange()
}

// Post adds a message to a cluster.
func (b *Broker) Post(clusterID string, m v1.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.position++
	b.messages[clusterID] = append(b.messages[clusterID], entry[v1.Message]{b.position, m})
	b.notifyChange()
}

// AskHoldings makes polls ask for holdings until some are announced.
func (b *Broker) AskHoldings() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.announce = true
	b.notifyChange()
}

// Agree makes the provider agree to every pending change of resources.
func (b *Broker) Agree() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.reservations {
		if r.state != nil && r.state.Change != nil {
			agreed := r.state.Change.Resources
			r.state.Resources, r.state.Instruction.Resources, r.state.Change = agreed, agreed, nil
		}
	}
}

// ChangeJournal invalidates all cursors, as a restored broker would.
func (b *Broker) ChangeJournal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journal++
}
