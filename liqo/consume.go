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
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// askAfter is how long a consumer without an identity waits for the provider's challenge before it
// requests credentials.
const askAfter = 2 * time.Second

// Consume carries out the next actions for a placement that this cluster uses, and returns its
// progress. The controller must call Consume again after changes of the objects in ConsumerWatches,
// after ConsumerEvents, and after the delay in the state.
func (p *Peering) Consume(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (plan.ConsumerState, error) {
	if inst.Ended() {
		p.departing.Lock()
		defer p.departing.Unlock()
	}
	return consumerSide{p}.consumePlacement(ctx, inst, false)
}

// DepartConsumer deletes the instruction of a placement that Consume has reported as done. It first
// checks that the placement is still done. If it is not, DepartConsumer deletes nothing and returns
// false, and Consume must be called again. For example, the instruction may now be the last one for
// its provider, so that the peering must be removed first.
func (p *Peering) DepartConsumer(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (bool, error) {
	p.departing.Lock()
	defer p.departing.Unlock()
	state, err := consumerSide{p}.consumePlacement(ctx, inst, true)
	if err != nil || !state.Done {
		return false, err
	}
	if d := p.deputyOf(inst.Spec.TargetClusterID); d != nil {
		d.forgetResults()
	}
	return true, patch.Delete(ctx, p.opts.Client, inst, agentv1alpha1.PeeringFinalizer)
}

// consumerSide is the part of Peering that observes and serves the placements that this
// cluster uses.
type consumerSide struct{ *Peering }

// consumePlacement carries out the next actions for a placement. departs is true if the caller
// deletes the instruction once nothing is left to do.
func (p consumerSide) consumePlacement(ctx context.Context, inst *agentv1alpha1.ReservationInstruction, departs bool) (plan.ConsumerState, error) {
	scene, err := p.observeConsumer(ctx, inst)
	if err != nil {
		return plan.ConsumerState{}, err
	}
	p.steps.noteStep(scene.pair, scene.HandshakeStep(), scene.now)
	actions, state := plan.ForConsumer(scene.ConsumerView)
	state.Again = patch.Soonest(state.Again, p.recheckAfter(scene), scene.Network.LookAgainAfter(), scene.renewal)
	for _, action := range actions {
		if err := p.applyConsumer(ctx, scene, action); err != nil {
			return state, fmt.Errorf("%s for placement %q: %w", action.Do, scene.Name, err)
		}
	}
	if inst.Spec.Unattended {
		state = p.actAsProvider(ctx, inst, state, departs)
	} else {
		p.dropDeputy(scene.Provider)
	}
	if state.Done && scene.Siblings == 0 {
		p.forgetPair(scene.pair)
		if departs {
			p.dropDeputy(scene.Provider)
		}
	}
	return state, nil
}

func (p consumerSide) applyConsumer(ctx context.Context, s *consumerScene, a plan.Action) error {
	switch a.Do {
	case plan.EnsureNamespace:
		return p.ensureNamespace(ctx, s.Provider, failpoint.ConsumerNamespaceMade)
	case plan.AskCredentials:
		return p.askCredentials(s)
	case plan.StopAsking:
		p.stopAsking(s)
		return nil
	case plan.SendAnswer:
		p.sendAnswer(s)
		return nil
	case plan.RecordServer:
		return p.recordServer(ctx, s.namespace, s.server)
	case plan.DeleteIdentity:
		defer failpoint.Hit(failpoint.ConsumerIdentityDeleted)
		return object.Delete(ctx, p.opts.Client, s.identity)
	case plan.BeginDrain, plan.CordonNode, plan.EvictPods, plan.RemovePods:
		return p.drainer.Apply(ctx, s.drainTarget(), a)
	case plan.DeleteSlice:
		defer failpoint.Hit(failpoint.ConsumerSliceDeleted)
		p.drainer.Forget(s.Name)
		return object.Delete(ctx, p.opts.Client, s.slice)
	case plan.WriteOffloading:
		return p.writeOffloading(ctx, s, a)
	case plan.DeleteOffloading:
		defer failpoint.Hit(failpoint.ConsumerOffloadingGone)
		return object.Delete(ctx, p.opts.Client, s.offloading[a.Namespace])
	}
	if write, ok := consumerWrites[a.Do]; ok {
		return write(p, ctx, s)
	}
	if known, err := p.network.Apply(ctx, s.network, a.Do); known {
		return err
	}
	return p.applyHome(ctx, a.Do, s.Provider, s.namespace, failpoint.ConsumerNamespaceDeleted)
}

// consumerWrites contains the actions that need no argument besides the scene.
var consumerWrites = map[plan.Verb]func(consumerSide, context.Context, *consumerScene) error{
	plan.WriteIdentity: consumerSide.writeIdentity,
	plan.WriteSlice:    consumerSide.writeSlice,
	plan.OpenNode:      consumerSide.openNode,

	plan.GiveUpProvider:   consumerSide.giveUpProvider,
	plan.TakeBackGivingUp: consumerSide.undoGivingUp,
	plan.NudgeSlice:       consumerSide.nudgeSlice,
	plan.EndPods:          consumerSide.endPods,
	plan.PartIdentity:     consumerSide.partIdentity,
}

func (p consumerSide) askCredentials(s *consumerScene) error {
	m := s.newMessage(handshake.StepRequest)
	payload, version, err := handshake.Encode(&m, handshake.Request{PublicKey: s.key.PEM})
	if err != nil {
		return err
	}
	p.opts.Outbox.Repeat(s.pair.Posting(handshake.StepRequest), version, askAfter, p.messageSend(s.pair, handshake.StepRequest, payload))
	return nil
}

// stopAsking stops requesting credentials. The agent still answers a later challenge.
func (p consumerSide) stopAsking(s *consumerScene) {
	p.opts.Outbox.Drop(s.pair.Posting(handshake.StepRequest))
	if s.Handshake.Applied {
		p.mailbox.Forget(s.pair, handshake.HandshakeSteps)
	}
}

// sendAnswer sends the answer to a challenge once for each delivery of the challenge. The provider
// repeats the challenge until it receives the answer.
func (p consumerSide) sendAnswer(s *consumerScene) {
	p.opts.Outbox.Drop(s.pair.Posting(handshake.StepRequest))
	version := fmt.Sprintf("%s/%d", s.answer.digest, s.challenge.Count)
	p.opts.Outbox.Post(s.pair.Posting(handshake.StepAnswer), version, p.messageSend(s.pair, handshake.StepAnswer, s.answer.payload), nil)
	failpoint.Hit(failpoint.ConsumerAnswered)
}

// answerChallenge returns the answer to the provider's challenge. It caches the answer, so that the
// same challenge always gets the same answer, even if signing again gives another signature. It
// returns handshake.ErrRefused for a challenge that no honest provider sends.
func (p consumerSide) answerChallenge(s *consumerScene) (answered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	question := s.challenge.Digest + string(s.key.DER)
	if a, ok := p.answers[s.pair]; ok && a.question == question {
		return a, nil
	}
	payload, digest, err := handshake.AnswerChallenge(s.pair, s.challenge, s.key, s.namespace.Name)
	if err != nil {
		return answered{}, err
	}
	p.answers[s.pair] = answered{question: question, payload: payload, digest: digest}
	return p.answers[s.pair], nil
}

func (p consumerSide) writeIdentity(ctx context.Context, s *consumerScene) error {
	defer failpoint.Hit(failpoint.ConsumerIdentityMade)
	// The API server is recorded first, because the admission policy compares the Identity with
	// that record.
	if err := p.recordServer(ctx, s.namespace, handshake.Spellings(cmp.Or(s.advertisedEndpoint(), s.credentials.APIServer))); err != nil {
		return err
	}
	spec := authv1beta1.IdentitySpec{
		ClusterID: liqov1beta1.ClusterID(s.Provider), Type: authv1beta1.ControlPlaneIdentityType,
		AuthParams: s.credentials.AuthParams(), Namespace: new(s.credentials.TenantNamespace),
	}
	if s.identity != nil {
		update := s.identity.DeepCopy()
		update.Spec = spec
		delete(update.Annotations, partedAnnotation)
		return p.opts.Client.Update(ctx, update)
	}
	return object.Create(ctx, p.opts.Client, &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace.Name, Name: object.IdentityName(s.Provider), Labels: object.OurLabels(s.Provider)},
		Spec:       spec,
	})
}

func (p consumerSide) writeSlice(ctx context.Context, s *consumerScene) error {
	defer failpoint.Hit(failpoint.ConsumerSliceMade)
	if s.slice != nil {
		update := s.slice.DeepCopy()
		update.Spec.Resources = sliceResources(s.slice.Spec.Resources, s.inst.Spec.Resources)
		return p.opts.Client.Update(ctx, update)
	}
	labels := object.OurLabels(s.Provider)
	labels[consts.ReplicationRequestedLabel] = consts.ReplicationRequestedLabelValue
	labels[consts.ReplicationDestinationLabel] = s.Provider
	labels[agentv1alpha1.ReservationLabel] = s.inst.Spec.ReservationName
	return object.Create(ctx, p.opts.Client, &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace.Name, Name: s.Name, Labels: labels,
			Annotations: map[string]string{consts.CreateVirtualNodeAnnotation: "true"},
		},
		Spec: authv1beta1.ResourceSliceSpec{
			Class: object.SliceClass, ProviderClusterID: new(liqov1beta1.ClusterID(s.Provider)), Resources: s.inst.Spec.Resources.DeepCopy(),
		},
	})
}
