package liqo

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// askAfter is how long a consumer without an identity waits for the provider to
// start the handshake by itself.
const askAfter = 2 * time.Second

// Consume does the next things for a placement that this cluster uses. Whatever it
// waits for wakes the controller: a watched object or a message.
func (p *Peering) Consume(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (ConsumerState, error) {
	if inst.Ended() {
		p.departing.Lock()
		defer p.departing.Unlock()
	}
	return p.consume(ctx, inst)
}

// DepartConsumer deletes an instruction whose placement is gone. It returns false
// where it has become the last of its provider meanwhile and must unpeer first.
func (p *Peering) DepartConsumer(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (bool, error) {
	p.departing.Lock()
	defer p.departing.Unlock()
	state, err := p.consume(ctx, inst)
	if err != nil || !state.Done {
		return false, err
	}
	return true, Finish(ctx, p.opts.Client, inst)
}

func (p *Peering) consume(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (ConsumerState, error) {
	scene, err := p.observeConsumer(ctx, inst)
	if err != nil {
		return ConsumerState{}, err
	}
	actions, state := PlanConsumer(scene.ConsumerView)
	state.Again = Soonest(Soonest(state.Again, p.lookAtLost(scene)), Soonest(scene.Network.again(), scene.renewal))
	for _, action := range actions {
		if err := p.applyConsumer(ctx, scene, action); err != nil {
			return state, fmt.Errorf("%s for placement %q: %w", action.Do, scene.Name, err)
		}
	}
	if inst.Spec.Unattended {
		state = p.deputise(ctx, inst, state)
	} else {
		p.dismiss(scene.Provider)
	}
	if state.Done && scene.Siblings == 0 {
		p.forget(scene.pair)
	}
	return state, nil
}

func (p *Peering) applyConsumer(ctx context.Context, s *consumerScene, a Action) error {
	switch a.Do {
	case EnsureNamespace:
		return p.ensureNamespace(ctx, s.Provider, failpoint.ConsumerNamespaceMade)
	case AskCredentials:
		return p.askCredentials(s)
	case StopAsking:
		p.stopAsking(s)
		return nil
	case SendAnswer:
		p.sendAnswer(s)
		return nil
	case WriteIdentity:
		return p.writeIdentity(ctx, s)
	case RecordServer:
		return p.recordServer(ctx, s.namespace, s.server)
	case DeleteIdentity:
		defer failpoint.Hit(failpoint.ConsumerIdentityDeleted)
		return remove(ctx, p.opts.Client, s.identity)
	case WriteSlice:
		return p.writeSlice(ctx, s)
	case OpenNode:
		return p.openNode(ctx, s)
	case BeginDrain, CordonNode, EvictPods, RemovePods:
		return p.drainer.Apply(ctx, s.drainTarget(), a)
	case DeleteSlice:
		defer failpoint.Hit(failpoint.ConsumerSliceDeleted)
		p.drainer.Forget(s.Name)
		return remove(ctx, p.opts.Client, s.slice)
	case WriteOffloading:
		return p.writeOffloading(ctx, s, a)
	case DeleteOffloading:
		defer failpoint.Hit(failpoint.ConsumerOffloadingGone)
		return remove(ctx, p.opts.Client, s.offloading[a.Namespace])
	}
	if depart, ok := departures[a.Do]; ok {
		return depart(p, ctx, s)
	}
	if known, err := p.network.Apply(ctx, s.network, a.Do); known {
		return err
	}
	return p.leaveHome(ctx, a.Do, s.Provider, s.namespace, failpoint.ConsumerNamespaceDeleted)
}

func (p *Peering) askCredentials(s *consumerScene) error {
	m := Message{Consumer: s.pair.Consumer, Provider: s.pair.Provider, Placement: s.anchor(), Step: StepRequest}
	payload, version, err := encode(&m, Request{PublicKey: s.key.pem})
	if err != nil {
		return err
	}
	p.opts.Outbox.Repeat(s.pair.posting(StepRequest), version, askAfter, p.message(s.pair, StepRequest, payload))
	return nil
}

// stopAsking ends the handshake on this side. A question that comes later is
// answered all the same.
func (p *Peering) stopAsking(s *consumerScene) {
	p.opts.Outbox.Drop(s.pair.posting(StepRequest))
	if s.Handshake.Applied {
		p.mailbox.forget(s.pair, handshakeSteps)
	}
}

// sendAnswer answers a challenge once per delivery: the provider repeats it until
// it is answered.
func (p *Peering) sendAnswer(s *consumerScene) {
	p.opts.Outbox.Drop(s.pair.posting(StepRequest))
	version := fmt.Sprintf("%s/%d", s.answer.digest, s.challenge.count)
	p.opts.Outbox.Post(s.pair.posting(StepAnswer), version, p.message(s.pair, StepAnswer, s.answer.payload), nil)
	failpoint.Hit(failpoint.ConsumerAnswered)
}

// answerTo answers the challenge. The same challenge gets the same answer, even from a key
// whose signatures differ each time. The error is errRefused for a challenge that this
// cluster does not answer.
func (p *Peering) answerTo(s *consumerScene) (answered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	question := s.challenge.digest + string(s.key.der)
	if a, ok := p.answers[s.pair]; ok && a.question == question {
		return a, nil
	}
	payload, digest, err := answerChallenge(s.pair, s.challenge, s.key, s.namespace.Name)
	if err != nil {
		return answered{}, err
	}
	p.answers[s.pair] = answered{question: question, payload: payload, digest: digest}
	return p.answers[s.pair], nil
}

func (p *Peering) writeIdentity(ctx context.Context, s *consumerScene) error {
	defer failpoint.Hit(failpoint.ConsumerIdentityMade)
	// The policy compares the Identity with the record, so the record comes first.
	if err := p.recordServer(ctx, s.namespace, spellings(cmp.Or(s.advertised(), s.credentials.APIServer))); err != nil {
		return err
	}
	spec := authv1beta1.IdentitySpec{
		ClusterID: liqov1beta1.ClusterID(s.Provider), Type: authv1beta1.ControlPlaneIdentityType,
		AuthParams: s.credentials.authParams(), Namespace: new(s.credentials.TenantNamespace),
	}
	if s.identity != nil {
		update := s.identity.DeepCopy()
		update.Spec = spec
		delete(update.Annotations, partedAnnotation)
		return p.opts.Client.Update(ctx, update)
	}
	return create(ctx, p.opts.Client, &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace.Name, Name: IdentityName(s.Provider), Labels: ourLabels(s.Provider)},
		Spec:       spec,
	})
}

func (p *Peering) writeSlice(ctx context.Context, s *consumerScene) error {
	defer failpoint.Hit(failpoint.ConsumerSliceMade)
	if s.slice != nil {
		update := s.slice.DeepCopy()
		update.Spec.Resources = asked(s.slice.Spec.Resources, s.inst.Spec.Resources)
		return p.opts.Client.Update(ctx, update)
	}
	labels := ourLabels(s.Provider)
	labels[consts.ReplicationRequestedLabel] = consts.ReplicationRequestedLabelValue
	labels[consts.ReplicationDestinationLabel] = s.Provider
	labels[agentv1alpha1.ReservationLabel] = s.inst.Spec.ReservationName
	return create(ctx, p.opts.Client, &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace.Name, Name: s.Name, Labels: labels,
			Annotations: map[string]string{consts.CreateVirtualNodeAnnotation: "true"},
		},
		Spec: authv1beta1.ResourceSliceSpec{
			Class: SliceClass, ProviderClusterID: new(liqov1beta1.ClusterID(s.Provider)), Resources: s.inst.Spec.Resources.DeepCopy(),
		},
	})
}
