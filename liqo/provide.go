package liqo

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

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

// Provide carries out the next actions for a placement that this cluster has acknowledged.
// Events wake the controller again: changes of watched objects, and messages.
func (p *Peering) Provide(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (plan.ProviderState, error) {
	if inst.Ended() || inst.Spec.Unpeer {
		p.departing.Lock()
		defer p.departing.Unlock()
	}
	return providerSide{p}.providePlacement(ctx, inst)
}

// DepartProvider deletes an instruction whose peering is done. It returns false if the
// instruction has become the last one for its consumer and must unpeer first.
func (p *Peering) DepartProvider(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (bool, error) {
	p.departing.Lock()
	defer p.departing.Unlock()
	state, err := providerSide{p}.providePlacement(ctx, inst)
	if err != nil || !state.Done {
		return false, err
	}
	// The slice may have been deleted while no agent ran.
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
	actions, state := plan.ForProvider(scene.ProviderView)
	state.Again = plan.Soonest(plan.Soonest(state.Again, p.recheckAfter(scene)), scene.Network.LookAgainAfter())
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

// ensureNonce creates the nonce, instead of waiting for Liqo to fill an empty Secret.
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

// writeTenant creates the Tenant from a checked answer, or renews the signature of an existing
// one with the same key. It first deletes a certificate that an earlier Tenant left behind,
// because Liqo would refuse another request beside it.
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

// sendCredentials sends the consumer's credentials. After a handshake it repeats them until a
// slice shows that they arrived; without one it sends them once per request.
func (p providerSide) sendCredentials(s *providerScene) error {
	params := s.tenant.Status.AuthParams
	if params.AwsConfig != nil {
		return fmt.Errorf("the Tenant of %q has an AWS identity, which is secret and not sent", s.Consumer)
	}
	m := handshake.Message{Consumer: s.pair.Consumer, Provider: s.pair.Provider, Placement: s.anchorPlacement(), Step: handshake.StepCredentials}
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
