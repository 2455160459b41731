package liqo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// How a deputy spends its time. One goroutine serves the placements at all providers, so it waits at
// most deputyWait for an attempt at one provider. A longer attempt continues in the background for at
// most deputyTimeout, and wakes the controller when it has finished. After a failed attempt, the
// deputy pauses for deputyPause. Objects in the provider's cluster are not watched: they are checked
// every deputyStep while a change is expected, and every deputyPause otherwise.
const (
	deputyWait    = 200 * time.Millisecond
	deputyTimeout = 5 * time.Second
	deputyPause   = 15 * time.Second
	deputyStep    = 500 * time.Millisecond
)

// deputy does the provider's part of a peering for a provider that has no agent. It runs in the
// consumer's agent and uses the same plans as a provider's agent, with a client of the provider's
// cluster. Messages between consumer and deputy do not leave the process.
//
// The provider's cluster has no ProviderInstruction objects. The deputy derives each of them from a
// ReservationInstruction in the consumer's cluster. Liqo must be in the provider's namespace "liqo".
type deputy struct {
	// part is the Peering in the role of the provider, consumer is the Peering of this cluster.
	part     *Peering
	consumer *Peering
	client   client.Client
	// restUntil is when the next attempt may be made after a failed one. failure is the error of the
	// last attempt, nil if it succeeded.
	restUntil time.Time
	failure   error
	// attempts holds the newest attempt for each placement, by its name. running is the last attempt that
	// was started. Only one attempt runs at a time, because the placements share a handshake. Only the
	// goroutine that calls the consumer's methods uses attempts and running.
	attempts map[string]*attempt
	running  *attempt
}

// attempt is one round of actions in the provider's cluster. provided and err are set before done is
// closed.
type attempt struct {
	// spec is the instruction that the attempt carries out.
	spec agentv1alpha1.ProviderInstructionSpec
	done chan struct{}
	// left is true once the consumer's goroutine no longer waits for the result. used is true once
	// Consume has returned the result.
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

// actAsProvider does the provider's part of a placement after the consumer's part. It returns the state
// of the consumer's part, changed so that it also waits for the provider's part.
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
	state.Again = patch.Soonest(state.Again, deputyPause)
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

// appointDeputy makes a new deputy if the kubeconfig has changed, so that Remote returns another client.
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
	d.part = New(Options{
		ClusterID: provider, InstructionNamespace: p.opts.InstructionNamespace, LiqoNamespace: "liqo", GatewayService: p.opts.GatewayService,
		Client: reader, Reader: reader, Messenger: d, Outbox: p.opts.Outbox, Verify: p.opts.Verify,
		Sign:  func(payload []byte) ([]byte, error) { return payload, nil },
		Clock: p.opts.Clock, Log: p.opts.Log.WithValues("provider", provider),
	})
	p.deputies[provider] = d
	return d, nil
}

func (p *Peering) deputyOf(provider string) *deputy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deputies[provider]
}

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

// providePlacement carries out the next actions in the provider's cluster. On entry, state describes the
// consumer's part. For an ended placement, providePlacement sets state.Gone and state.Done to false
// unless they are also true for the provider's part.
func (d *deputy) providePlacement(ctx context.Context, inst *agentv1alpha1.ReservationInstruction, state *plan.ConsumerState, departs bool) error {
	if now := d.part.opts.Clock.Now(); now.Before(d.restUntil) {
		return d.failure
	}
	there := instructionFor(inst, d.consumer.opts.ClusterID)
	there.Spec.Unpeer = state.Done
	a := d.awaitAttempt(ctx, there, departs)
	switch {
	case a == nil && d.failure != nil:
		return d.failure // the next attempt is still running
	case a == nil:
		state.Again = patch.Soonest(state.Again, deputyStep)
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
	state.Again = patch.Soonest(state.Again, wait)
	d.describeProvided(inst, state, a.provided)
	return nil
}

// describeProvided lets Gone and Done of an ended placement stay true only if they are true for both parts.
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

// awaitAttempt returns the result of a finished attempt. Each result is returned once. If there is no
// new result, awaitAttempt starts an attempt and waits for it for deputyWait. It returns nil if the
// attempt takes longer or another one is still running.
//
// If the instruction is about to be deleted (departs), a result is also returned a second time:
// Consume has already used the result that says that the placement is done, and DepartConsumer needs
// the same result.
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

// carryOutAttempt wakes the consumer's controller if nobody waits for the result any longer.
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
		_ = d.wakeConsumer(wake) // after an error, the controller still checks again after deputyStep
	}
}

// forgetResults drops all results after a placement has been deleted. They may have been obtained while
// that placement still needed the peering. If two placements ended together, such a result could make
// each of them leave the removal of the peering to the other one.
func (d *deputy) forgetResults() {
	clear(d.attempts)
}

// grantSlice answers the placement's slice as soon as Liqo has replicated it to the provider's cluster.
func (d *deputy) grantSlice(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) error {
	namespace, err := d.part.TenantNamespaceOf(ctx, inst.Spec.RequesterClusterID)
	if namespace == "" || err != nil {
		return err
	}
	return d.part.Grant(ctx, types.NamespacedName{Namespace: namespace, Name: inst.Name}, guard.Place{})
}

// instructionFor returns the instruction that an agent of the provider would have received for the
// placement and accepted.
func instructionFor(inst *agentv1alpha1.ReservationInstruction, consumer string) *agentv1alpha1.ProviderInstruction {
	return &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: inst.Namespace, Name: inst.PlacementName(),
			UID: inst.UID, CreationTimestamp: inst.CreationTimestamp, DeletionTimestamp: inst.DeletionTimestamp,
		},
		Spec: agentv1alpha1.ProviderInstructionSpec{
			ReservationName: inst.Spec.ReservationName, Placement: inst.Spec.Placement,
			RequesterClusterID: consumer, Resources: inst.Spec.Resources, Release: inst.Spec.Release,
		},
		Status: agentv1alpha1.ProviderInstructionStatus{Enforced: true, Granted: inst.Spec.Resources},
	}
}

// deputyClient is a client of a provider's cluster. The provider's cluster has no
// ProviderInstructions, so deputyClient derives them from the instructions in the consumer's
// cluster.
type deputyClient struct {
	client.Client
	consumer *Peering
	provider string
}

// Get implements client.Reader.
func (c deputyClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	into, ok := obj.(*agentv1alpha1.ProviderInstruction)
	if !ok {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	all, err := c.listInstructions(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Name == key.Name {
			*into = all[i]
			return nil
		}
	}
	return apierrors.NewNotFound(agentv1alpha1.GroupVersion.WithResource("providerinstructions").GroupResource(), key.Name)
}

// List implements client.Reader.
func (c deputyClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (err error) {
	switch into := list.(type) {
	case *agentv1alpha1.ProviderInstructionList:
		into.Items, err = c.listInstructions(ctx)
		return err
	case *agentv1alpha1.ReservationInstructionList:
		into.Items = nil // a cluster without an agent requests no reservations
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

// listInstructions returns an instruction for each placement at the provider, in any phase. It
// bypasses the cache: the peering is removed with its last placement, and a stale list might not
// contain another placement that still needs the peering.
func (c deputyClient) listInstructions(ctx context.Context) ([]agentv1alpha1.ProviderInstruction, error) {
	o := &c.consumer.opts
	var list agentv1alpha1.ReservationInstructionList
	err := o.Reader.List(ctx, &list, client.InNamespace(o.InstructionNamespace), client.MatchingFields{"spec.targetClusterID": c.provider})
	if err != nil {
		return nil, fmt.Errorf("listing the placements at %q: %w", c.provider, err)
	}
	var all []agentv1alpha1.ProviderInstruction
	for i := range list.Items {
		all = append(all, *instructionFor(&list.Items[i], o.ClusterID))
	}
	return all, nil
}
