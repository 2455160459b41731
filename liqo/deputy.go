package liqo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// One worker serves the placements at all providers, so it waits only deputyWait for a provider. An
// attempt that takes longer continues beside it, for deputyTimeout at most, and wakes the controller
// when it is over. After a failure, a deputy rests for deputyPause. The provider's objects are not
// watched. They are checked every deputyStep while a change is expected, and otherwise every
// deputyPause.
const (
	deputyWait    = 200 * time.Millisecond
	deputyTimeout = 5 * time.Second
	deputyPause   = 15 * time.Second
	deputyStep    = 500 * time.Millisecond
)

// deputy does the provider's part of a peering for a provider without an agent. It runs in the
// consumer's process, with the same plans and a client of the provider's cluster. Messages
// between the two parts do not leave the process.
//
// Its ProviderInstructions do not exist as objects: each is derived from a
// ReservationInstruction in this cluster.
type deputy struct {
	part     *Peering
	consumer *Peering
	client   client.Client
	// restUntil is when to try again after a failure.
	restUntil time.Time
	failure   error
	// attempts holds the newest attempt for each placement, by name. running is the one that may
	// still run: there is one at a time, because the placements share a handshake. Only the
	// consumer's goroutine uses both.
	attempts map[string]*attempt
	running  *attempt
}

// attempt is one round of actions in the provider's cluster. Its results are set once done is closed.
type attempt struct {
	// spec says what the provider was to do.
	spec agentv1alpha1.ProviderInstructionSpec
	done chan struct{}
	// left is true once nobody waits for the result, used once the result was an answer to Consume.
	left     atomic.Bool
	used     bool
	provided plan.ProviderState
	err      error
}

func (a *attempt) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// actAsProvider does the provider's part of a placement after the consumer's, and adds to the state
// what the provider's part still waits for.
func (p *Peering) actAsProvider(ctx context.Context, inst *agentv1alpha1.ReservationInstruction, state plan.ConsumerState, departs bool) plan.ConsumerState {
	d, err := p.appointDeputy(inst.Spec.TargetClusterID)
	if err != nil && inst.Ended() {
		return state // the owner withdrew the kubeconfig, so nothing more can be done there
	}
	if err == nil {
		err = d.providePlacement(ctx, inst, &state, departs)
	}
	if err == nil || inst.Ended() && isSpanOver(inst.Status.ReleasingSince, p.opts.GiveUpAfter, p.opts.Clock.Now()) {
		return state
	}
	state.Again = plan.Soonest(state.Again, deputyPause)
	state.Gone, state.Done = false, false
	switch {
	case inst.Ended():
		state.Phase = agentv1alpha1.InstructionReleasing
		state.Peered = placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting to leave %q: %s", inst.Spec.TargetClusterID, err)
	case !state.NodeReady.True:
		state.Peered = placement.Waiting(agentv1alpha1.ReasonPeering, "%q has no agent: %s", inst.Spec.TargetClusterID, err)
		state.NodeReady = placement.Waiting(agentv1alpha1.ReasonAwaitingNode, "waiting for the peering")
	}
	return state
}

// appointDeputy returns the deputy of a provider. It makes a new one when the provider's client has
// changed, because that client belongs to another kubeconfig.
func (p *Peering) appointDeputy(provider string) (*deputy, error) {
	if p.opts.Remote == nil {
		return nil, errors.New("install one there, or run this one with --peering-mode=kubeconfig and a kubeconfig of that cluster")
	}
	remote, err := p.opts.Remote(provider)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.deputies[provider]; d != nil && d.client == remote {
		return d, nil
	}
	d := &deputy{consumer: p, client: remote, attempts: map[string]*attempt{}}
	reader := deputyClient{Client: remote, consumer: p, provider: provider}
	d.part, err = New(Options{
		ClusterID: provider, InstructionNamespace: p.opts.InstructionNamespace, GatewayService: p.opts.GatewayService,
		Client: reader, Reader: reader, Messenger: d, Outbox: p.opts.Outbox, Verify: p.opts.Verify,
		Sign:  func(payload []byte) ([]byte, error) { return payload, nil },
		Clock: p.opts.Clock, Log: p.opts.Log.WithValues("provider", provider),
	})
	if err != nil {
		return nil, err
	}
	p.deputies[provider] = d
	return d, nil
}

// deputyOf returns the deputy of a provider, nil if none was appointed.
func (p *Peering) deputyOf(provider string) *deputy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deputies[provider]
}

// dropDeputy drops the deputy of a provider.
func (p *Peering) dropDeputy(provider string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.deputies, provider)
}

// receiveMessage delivers a message of the consumer to the provider's part.
func (d *deputy) receiveMessage(ctx context.Context, payload []byte) error {
	if _, err := d.part.mailbox.Take(d.consumer.opts.ClusterID, payload); err != nil {
		return err
	}
	return d.wakeConsumer(ctx)
}

// SendMessage delivers a message of the provider's part to the consumer.
func (d *deputy) SendMessage(ctx context.Context, msg *v1.Message) error {
	if _, err := d.consumer.mailbox.Take(d.part.opts.ClusterID, msg.Body); err != nil {
		return err
	}
	return d.wakeConsumer(ctx)
}

// wakeConsumer makes the consumer's controller reconcile all placements at the provider.
func (d *deputy) wakeConsumer(ctx context.Context) error {
	return d.consumer.mailbox.WakeConsumer(ctx, d.part.opts.ClusterID)
}

// providePlacement carries out the next actions in the provider's cluster. It clears state.Gone and
// state.Done unless the provider's part is gone and done, too.
func (d *deputy) providePlacement(ctx context.Context, inst *agentv1alpha1.ReservationInstruction, state *plan.ConsumerState, departs bool) error {
	if now := d.part.opts.Clock.Now(); now.Before(d.restUntil) {
		return d.failure
	}
	there := instructionFor(inst, d.consumer.opts.ClusterID)
	there.Spec.Unpeer = state.Done
	a := d.awaitAttempt(ctx, there, departs)
	switch {
	case a == nil && d.failure != nil:
		return d.failure // it is being tried again
	case a == nil:
		state.Again = plan.Soonest(state.Again, deputyStep)
		d.describeProvided(inst, state, plan.ProviderState{Granted: placement.Waiting(agentv1alpha1.ReasonReleasing, "its API server is slow")})
		return nil
	case a.err != nil:
		d.failure = fmt.Errorf("acting for it through its kubeconfig failed: %w", a.err)
		d.restUntil = d.part.opts.Clock.Now().Add(deputyPause)
		return d.failure
	}
	d.failure = nil
	wait := deputyStep
	if !inst.Ended() && state.NodeReady.True {
		wait = deputyPause
	}
	state.Again = plan.Soonest(state.Again, wait)
	d.describeProvided(inst, state, a.provided)
	return nil
}

// describeProvided adds the provider's part of an ended placement to its state.
func (d *deputy) describeProvided(inst *agentv1alpha1.ReservationInstruction, state *plan.ConsumerState, provided plan.ProviderState) {
	if !inst.Ended() {
		return
	}
	if state.Done && !provided.Done {
		state.Peered = placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting until %q is left: %s", inst.Spec.TargetClusterID, provided.Granted.Message)
		state.Phase = agentv1alpha1.InstructionReleasing
	}
	state.Gone, state.Done = state.Gone && provided.Gone, state.Done && provided.Done
}

// awaitAttempt returns the result of an attempt that was not used yet, and starts one if there is none.
// It returns nil while the provider is busy. An instruction that departs uses the last result again:
// if it had to wait for another one, Consume would use that, and so on without an end.
func (d *deputy) awaitAttempt(ctx context.Context, there *agentv1alpha1.ProviderInstruction, departs bool) *attempt {
	a := d.attempts[there.Name]
	if a != nil && a.isDone() && equality.Semantic.DeepEqual(a.spec, there.Spec) && (departs || !a.used) {
		a.used = true
		return a
	}
	if d.running != nil && !d.running.isDone() {
		return nil
	}
	a = &attempt{spec: *there.Spec.DeepCopy(), done: make(chan struct{})}
	d.attempts[there.Name], d.running = a, a
	go d.carryOutAttempt(context.WithoutCancel(ctx), there.DeepCopy(), a)
	wait, cancel := context.WithTimeout(ctx, deputyWait)
	defer cancel()
	select {
	case <-a.done:
		a.used = true
		return a
	case <-wait.Done():
		a.left.Store(true)
		return nil
	}
}

// carryOutAttempt wakes the consumer's controller if nobody waits for the result.
func (d *deputy) carryOutAttempt(ctx context.Context, there *agentv1alpha1.ProviderInstruction, a *attempt) {
	attemptCtx, cancel := context.WithTimeout(ctx, deputyTimeout)
	defer cancel()
	if a.provided, a.err = (providerSide{d.part}).providePlacement(attemptCtx, there); a.err == nil {
		a.err = d.grantSlice(attemptCtx, there)
	}
	close(a.done)
	if a.left.Load() {
		wake, cancel := context.WithTimeout(ctx, deputyTimeout)
		defer cancel()
		_ = d.wakeConsumer(wake) // if the controller does not read, it checks again after deputyStep
	}
}

// forgetResults drops all results, because they may rely on a placement that has departed: of two
// that end together, one must take the peering down.
func (d *deputy) forgetResults() {
	clear(d.attempts)
}

// grantSlice answers the placement's slice as soon as Liqo has replicated it.
func (d *deputy) grantSlice(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	namespace, err := d.part.TenantNamespaceOf(ctx, inst.Spec.RequesterClusterID)
	if namespace == "" || err != nil {
		return err
	}
	return d.part.Grant(ctx, types.NamespacedName{Namespace: namespace, Name: inst.Name}, guard.Place{})
}

// instructionFor returns the instruction that an agent of the provider would have received and
// accepted.
func instructionFor(inst *agentv1alpha1.ReservationInstruction, consumer string) *agentv1alpha1.ProviderInstruction {
	return &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: inst.Namespace, Name: brokerv1alpha1.PlacementName(inst.Spec.ReservationName, inst.Spec.Placement),
			UID: inst.UID, CreationTimestamp: inst.CreationTimestamp, DeletionTimestamp: inst.DeletionTimestamp,
		},
		Spec: agentv1alpha1.ProviderInstructionSpec{
			ReservationName: inst.Spec.ReservationName, Placement: inst.Spec.Placement,
			RequesterClusterID: consumer, Resources: inst.Spec.Resources, Release: inst.Spec.Release,
		},
		Status: agentv1alpha1.ProviderInstructionStatus{Enforced: true, Granted: inst.Spec.Resources},
	}
}
