package liqo

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Provide carries out the next actions for a placement that this cluster has acknowledged, and
// returns its progress. The controller must call Provide again after changes of the objects in
// ProviderWatches, after ProviderEvents, and after the delay in the state.
func (p *Peering) Provide(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (plan.ProviderState, error) {
	if inst.Ended() || inst.Spec.Unpeer {
		p.departing.Lock()
		defer p.departing.Unlock()
	}
	return providerSide{p}.providePlacement(ctx, inst)
}

// DepartProvider deletes the instruction of a placement that Provide has reported as done. It first
// checks that the placement is still done. If it is not, DepartProvider deletes nothing and returns
// false, and Provide must be called again. For example, the instruction may now be the last one for
// its consumer, so that the peering must be removed first.
func (p *Peering) DepartProvider(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (bool, error) {
	p.departing.Lock()
	defer p.departing.Unlock()
	state, err := providerSide{p}.providePlacement(ctx, inst)
	if err != nil || !state.Done {
		return false, err
	}
	// Normally the watch of slices leads to this call, but it misses slices that are deleted while
	// no agent runs.
	if ns, err := p.TenantNamespaceOf(ctx, inst.Spec.RequesterClusterID); err != nil {
		return false, err
	} else if ns != "" {
		if err := p.ForgetSlice(ctx, ns, inst.Name); err != nil {
			return false, err
		}
	}
	return true, patch.Delete(ctx, p.opts.Client, inst, agentv1alpha1.PeeringFinalizer)
}

// providerSide is the part of Peering that observes and serves the placements that other
// clusters have in this one.
type providerSide struct{ *Peering }

func (p providerSide) providePlacement(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (plan.ProviderState, error) {
	scene, err := p.observeProvider(ctx, inst)
	if err != nil {
		return plan.ProviderState{}, err
	}
	if err := p.DisownMaps(ctx, scene.Consumer, scene.namespace); err != nil {
		return plan.ProviderState{}, err
	}
	p.steps.noteStep(scene.pair, scene.HandshakeStep(), scene.now)
	actions, state := plan.ForProvider(scene.ProviderView)
	state.Again = patch.Soonest(state.Again, p.recheckAfter(scene), scene.Network.LookAgainAfter())
	for _, action := range actions {
		if err := p.applyProvider(ctx, scene, action.Do); err != nil {
			return state, fmt.Errorf("%s for placement %q: %w", action.Do, scene.Name, err)
		}
	}
	return state, nil
}

func (p providerSide) applyProvider(ctx context.Context, s *providerScene, verb plan.Verb) error {
	switch verb {
	case plan.EnsureNamespace:
		return p.ensureNamespace(ctx, s.Consumer, failpoint.ProviderNamespaceMade)
	case plan.EnsureNonce:
		return p.ensureNonce(ctx, s)
	case plan.SendChallenge:
		p.opts.Outbox.Repeat(s.pair.Posting(handshake.StepChallenge), s.challengeDigest, 0, p.messageSend(s.pair, handshake.StepChallenge, s.challenge))
		failpoint.Hit(failpoint.ProviderChallenged)
		return nil
	case plan.WriteTenant:
		return p.writeTenant(ctx, s)
	case plan.SendCredentials:
		return p.sendCredentials(s)
	case plan.StopSending:
		p.endHandshake(s.pair)
		return nil
	case plan.ForgetConsumer:
		p.forgetPair(s.pair)
		return nil
	case plan.DeleteTenant:
		defer failpoint.Hit(failpoint.ProviderTenantDeleted)
		return object.Delete(ctx, p.opts.Client, s.tenant)
	case plan.DeleteSecrets:
		return p.deleteSecrets(ctx, s.namespace.Name)
	}
	if reclaim, ok := reclaimFuncs[verb]; ok {
		return reclaim(p, ctx, s)
	}
	if known, err := p.network.Apply(ctx, s.network, verb); known {
		return err
	}
	return p.applyHome(ctx, verb, s.Consumer, s.namespace, failpoint.ProviderNamespaceDeleted)
}

// ensureNonce makes the nonce itself: Liqo would fill an empty Secret only after another reconciliation.
func (p providerSide) ensureNonce(ctx context.Context, s *providerScene) error {
	random := make([]byte, handshake.NonceSize)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	labels := object.OurLabels(s.Consumer)
	labels[consts.NonceSecretLabelKey] = "true"
	err := object.Create(ctx, p.opts.Client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace.Name, Name: object.NonceSecretName, Labels: labels},
		Data:       map[string][]byte{consts.NonceSecretField: []byte(base64.StdEncoding.EncodeToString(random))},
	})
	failpoint.Hit(failpoint.ProviderNonceMade)
	return err
}

// writeTenant creates the Tenant from a checked answer. If the Tenant exists, it only updates
// the signature. Before it creates a Tenant, it deletes the certificate that an earlier Tenant
// may have left: while that exists, Liqo refuses a new certificate request.
func (p providerSide) writeTenant(ctx context.Context, s *providerScene) error {
	defer failpoint.Hit(failpoint.ProviderTenantMade)
	if s.tenant != nil {
		update := s.tenant.DeepCopy()
		update.Spec.Signature = s.answer.Signature
		return p.opts.Client.Update(ctx, update)
	}
	if found, err := object.Get(ctx, p.opts.Reader, s.namespace.Name, s.Consumer, &authv1beta1.Tenant{}); found || err != nil {
		return err // the cache does not show the Tenant yet
	}
	if err := p.deleteSecret(ctx, s.namespace.Name, object.CertificateSecretName); err != nil {
		return err
	}
	return object.Create(ctx, p.opts.Client, &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace.Name, Name: s.Consumer, Labels: object.OurLabels(s.Consumer)},
		Spec: authv1beta1.TenantSpec{
			ClusterID: liqov1beta1.ClusterID(s.Consumer),
			PublicKey: s.answer.PublicKey, CSR: s.answer.CSR, Signature: s.answer.Signature,
		},
	})
}

// sendCredentials sends the credentials to the consumer. After a handshake, the Outbox repeats
// them until a slice of the consumer shows that they have arrived. If the consumer requested
// them again, they are sent once for each request.
func (p providerSide) sendCredentials(s *providerScene) error {
	params := s.tenant.Status.AuthParams
	if params.AwsConfig != nil {
		return fmt.Errorf("the Tenant of %q has an AWS identity, which is secret and not sent", s.Consumer)
	}
	m := s.newMessage(handshake.StepCredentials)
	m.Epoch = "recovered"
	if s.Handshake.Answered {
		m.Epoch, m.PreviousDigest = s.reply.Epoch, s.reply.Digest
	}
	payload, version, err := handshake.Encode(&m, handshake.Credentials{
		TenantNamespace: s.tenant.Status.TenantNamespace, APIServer: params.APIServer,
		CA: params.CA, SignedCRT: params.SignedCRT, ProxyURL: params.ProxyURL,
	})
	if err != nil {
		return err
	}
	p.opts.Outbox.Drop(s.pair.Posting(handshake.StepChallenge))
	key, send := s.pair.Posting(handshake.StepCredentials), p.messageSend(s.pair, handshake.StepCredentials, payload)
	if s.Handshake.Answered {
		p.opts.Outbox.Repeat(key, version, 0, send)
	} else {
		p.opts.Outbox.Post(key, fmt.Sprintf("%s/%d", version, s.request.Count), send, nil)
	}
	failpoint.Hit(failpoint.ProviderCredentialsSent)
	return nil
}

func (p providerSide) deleteSecrets(ctx context.Context, namespace string) error {
	if err := p.deleteSecret(ctx, namespace, object.CertificateSecretName); err != nil {
		return err
	}
	return p.deleteSecret(ctx, namespace, object.NonceSecretName)
}

func (p providerSide) deleteSecret(ctx context.Context, namespace, name string) error {
	return client.IgnoreNotFound(p.opts.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
}

// reclaimedAnnotation marks a Tenant that the agent, and not a person, has drained.
const reclaimedAnnotation = "broker.fluidos.eu/reclaimed"

// podsEnd is the delay between two checks of an ended placement that still has pods. The agent must poll, because it
// does not watch these pods.
const podsEnd = time.Second

// isSpanOver returns false if span is 0, which means no limit, or since is nil.
func isSpanOver(since *metav1.Time, span time.Duration, now time.Time) bool {
	return span > 0 && since != nil && !now.Before(since.Add(span))
}

// remainingSpan returns how much of the span is left; 0 if it is over, and 0 if it never ends because
// span is 0 or since is nil. Callers that also use isSpanOver must pass the same now to both functions.
// Otherwise the span could end between two readings of the clock, and no further check would be
// scheduled.
func remainingSpan(since *metav1.Time, span time.Duration, now time.Time) time.Duration {
	if span == 0 || since == nil {
		return 0
	}
	return max(since.Add(span).Sub(now), 0)
}

func (p providerSide) recheckAfter(s *providerScene) time.Duration {
	switch {
	case !s.Release:
		return 0
	case s.Pods > 0:
		return podsEnd
	}
	return remainingSpan(s.inst.Status.ReleasingSince, p.opts.ReclaimAfter, s.now)
}

// reclaimFuncs holds the functions for the actions of planReclaim, planEviction and planDrained.
var reclaimFuncs = map[plan.Verb]func(providerSide, context.Context, *providerScene) error{
	plan.CordonSlice: providerSide.cordonSlice,
	plan.DeletePods:  providerSide.deletePods,
	plan.DeleteReplica: func(p providerSide, ctx context.Context, s *providerScene) error {
		return object.Delete(ctx, p.opts.Client, s.replica)
	},
	plan.DrainTenant:    providerSide.drainTenant,
	plan.RestoreTenant:  providerSide.restoreTenant,
	plan.DeleteReplicas: providerSide.deleteReplicas,
}

func (p providerSide) cordonSlice(ctx context.Context, s *providerScene) error {
	cordoned := s.replica.DeepCopy()
	metav1.SetMetaDataAnnotation(&cordoned.ObjectMeta, consts.CordonResourceAnnotation, "true")
	p.opts.Log.Info("reclaiming capacity that a consumer did not release in time", "placement", s.Name, "consumer", s.Consumer, "pods", s.ShadowPods)
	return p.opts.Client.Update(ctx, cordoned)
}

func (p providerSide) deletePods(ctx context.Context, s *providerScene) error {
	return p.removeAll(ctx, s.shadowPods)
}

func (p providerSide) deleteReplicas(ctx context.Context, s *providerScene) error {
	return p.removeAll(ctx, s.replicas)
}

func (p providerSide) removeAll(ctx context.Context, objects []metav1.PartialObjectMetadata) error {
	for i := range objects {
		if objects[i].DeletionTimestamp != nil {
			continue
		}
		if err := object.Delete(ctx, p.opts.Client, &objects[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p providerSide) drainTenant(ctx context.Context, s *providerScene) error {
	drained := s.tenant.DeepCopy()
	drained.Spec.TenantCondition = authv1beta1.TenantConditionDrained
	metav1.SetMetaDataAnnotation(&drained.ObjectMeta, reclaimedAnnotation, "true")
	p.opts.Log.Info("ending the rights of a consumer that left its replicas here", "consumer", s.Consumer, "replicas", s.Replicated)
	return p.opts.Client.Update(ctx, drained)
}

func (p providerSide) restoreTenant(ctx context.Context, s *providerScene) error {
	restored := s.tenant.DeepCopy()
	restored.Spec.TenantCondition = authv1beta1.TenantConditionActive
	delete(restored.Annotations, reclaimedAnnotation)
	return p.opts.Client.Update(ctx, restored)
}
