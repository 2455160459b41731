package transporttest

import (
	"context"
	"errors"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// errDown is the error of every call while the broker is down.
var errDown = errors.New("connection refused")

// Fail makes the next calls of an operation fail: each call returns the next one of the errors.
func (b *Broker) Fail(operation Operation, errs ...error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[operation] = append(b.failures[operation], errs...)
}

// SetDown makes the broker unreachable for Direct transports, or reachable again.
func (b *Broker) SetDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
	b.notifyChange()
}

// SetBeforeAnswer sets a function that runs after a reservation was stored and before its requester
// gets the answer. If the function fails, the requester gets its error instead of the answer.
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

// Post adds a message for a cluster.
func (b *Broker) Post(clusterID string, m v1.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.position++
	b.messages[clusterID] = append(b.messages[clusterID], entry[v1.Message]{b.position, m})
	b.notifyChange()
}

// AskHoldings makes answers to polls ask for holdings until a cluster announces its own.
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

// ChangeJournal makes all cursors invalid, as after a restore of a broker.
func (b *Broker) ChangeJournal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journal++
}
