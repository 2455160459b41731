package liqo

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// providerScene is a ProviderView, together with the objects and messages from which it was made.
type providerScene struct {
	plan.ProviderView
	scene
	inst *agentv1alpha1.ProviderInstruction

	tenant  *authv1beta1.Tenant
	replica *authv1beta1.ResourceSlice
	// shadowPods are the ShadowPods of the placement. replicas are all objects that the consumer's
	// Liqo replicated to this cluster.
	shadowPods, replicas []metav1.PartialObjectMetadata
	nonce                []byte

	challenge       []byte
	challengeDigest string
	request, reply  *handshake.Received
	answer          *handshake.Answer
}

// observeProvider returns what exists for a placement in this cluster. It reads through the cache. If
// an ended placement seems to use nothing any longer, it reads again, bypassing the cache, because the
// broker lends the capacity to others as soon as the agent reports that the placement is gone.
func (p providerSide) observeProvider(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (*providerScene, error) {
	s, err := p.viewProvider(ctx, p.opts.Client, inst)
	if err != nil || !s.Release && !s.Unpeer || s.IsInUse() {
		return s, err
	}
	if s, err = p.viewProvider(ctx, p.opts.Reader, inst); err != nil || s.IsInUse() {
		return s, err
	}
	return s, p.observeUnpeering(ctx, s)
}

func (p providerSide) viewProvider(ctx context.Context, r client.Reader, inst *agentv1alpha1.ProviderInstruction) (*providerScene, error) {
	s := &providerScene{inst: inst, scene: scene{
		reader: r, now: p.opts.Clock.Now(), pair: handshake.Pair{Consumer: inst.Spec.RequesterClusterID, Provider: p.opts.ClusterID},
	}}
	s.Consumer, s.Release = inst.Spec.RequesterClusterID, inst.Ended()
	s.Unpeer = inst.Spec.Unpeer || inst.DeletionTimestamp != nil
	s.Name = inst.PlacementName()
	s.Reclaim = s.Release && isSpanOver(inst.Status.ReleasingSince, p.opts.ReclaimAfter, s.now)
	var list agentv1alpha1.ProviderInstructionList
	if err := p.opts.Client.List(ctx, &list, client.InNamespace(p.opts.InstructionNamespace)); err != nil {
		return nil, err
	}
	// Placements that this cluster has not accepted do not count, except this one.
	s.live = placementNames(oldestFirst(list.Items, func(i *agentv1alpha1.ProviderInstruction) bool {
		return i.Spec.RequesterClusterID == s.Consumer && !i.Ended() && (i.Status.Enforced || i.UID == inst.UID)
	}))
	var err error
	if s.namespace, err = object.FindTenantNamespace(ctx, r, s.Consumer); err != nil {
		return nil, err
	}
	s.Namespace = object.ViewOfNamespace(s.namespace)
	for _, observe := range []func(context.Context, *providerScene) error{
		p.observeReplicas, p.observeTenant, p.observeProviderHandshake, p.observeUse, p.observeQuota,
	} {
		if err := observe(ctx, s); err != nil {
			return nil, err
		}
	}
	s.Network, err = p.observeNetwork(ctx, &s.scene, s.Release || s.Unpeer)
	return s, err
}

func (p providerSide) observeReplicas(ctx context.Context, s *providerScene) error {
	if s.namespace == nil {
		return nil
	}
	var list authv1beta1.ResourceSliceList
	if err := s.reader.List(ctx, &list, client.InNamespace(s.namespace.Name), client.MatchingLabels{object.ReplicatedLabel: "true"}); err != nil {
		return err
	}
	s.Slices = len(list.Items)
	for i := range list.Items {
		if slice := &list.Items[i]; slice.Name == s.Name {
			s.replica, s.Replica = slice, replicaView(slice)
			s.Replica.Exceeds = exceedsKept(slice.Status.Resources, s.inst.Kept())
		}
	}
	return nil
}

func replicaView(slice *authv1beta1.ResourceSlice) plan.ReplicaView {
	v := plan.ReplicaView{Exists: true, Cordoned: slice.Annotations[consts.CordonResourceAnnotation] == "true"}
	if c := authentication.GetCondition(slice, authv1beta1.ResourceSliceConditionTypeResources); c != nil {
		v.Granted, v.Message = c.Status == authv1beta1.ResourceSliceConditionAccepted, c.Message
	}
	return v
}

func (p providerSide) observeTenant(ctx context.Context, s *providerScene) error {
	if s.namespace == nil {
		return nil
	}
	var list authv1beta1.TenantList
	if err := s.reader.List(ctx, &list, client.InNamespace(s.namespace.Name)); err != nil {
		return err
	}
	for i := range list.Items {
		tenant := &list.Items[i]
		if string(tenant.Spec.ClusterID) != s.Consumer {
			continue
		}
		s.tenant = tenant
		s.Tenant = plan.TenantView{
			ObjectView: object.ViewOf(tenant), Ready: p.tenantReady(tenant, s.Consumer),
			Drained:   tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained,
			Reclaimed: tenant.Annotations[reclaimedAnnotation] == "true",
		}
	}
	return nil
}

// tenantReady reports whether the Tenant's status contains a certificate for the key in its spec.
func (p providerSide) tenantReady(tenant *authv1beta1.Tenant, consumer string) bool {
	params := tenant.Status.AuthParams
	if params == nil || tenant.Status.TenantNamespace == "" {
		return false
	}
	_, der, err := authentication.ParseTenantPublicKey(tenant.Spec.PublicKey)
	return err == nil && handshake.CertificateFits(params.SignedCRT, der, consumer)
}

// observeProviderHandshake reads the nonce only during a handshake, and for the removal of the peering.
func (p providerSide) observeProviderHandshake(ctx context.Context, s *providerScene) error {
	s.request, s.reply = p.mailbox.Get(s.pair, handshake.StepRequest), p.mailbox.Get(s.pair, handshake.StepAnswer)
	if s.namespace == nil || s.Release && !s.Unpeer || !s.Release && s.Tenant.Ready && s.request == nil && s.reply == nil {
		return nil
	}
	var secret corev1.Secret
	found, err := object.Get(ctx, p.opts.Reader, s.namespace.Name, object.NonceSecretName, &secret)
	if err != nil {
		return err
	}
	if found {
		s.nonce, s.Nonce = secret.Data[consts.NonceSecretField], object.ViewOf(&secret)
		s.Nonce.Exists = len(s.nonce) > 0
	}
	if s.Release {
		return nil
	}
	s.observeRequest()
	if s.Nonce.IsUsable() {
		return s.observeAnswer()
	}
	return nil
}

func (s *providerScene) observeRequest() {
	if s.request == nil || !s.isLive(s.request.Placement) {
		return
	}
	var body handshake.Request
	if err := s.request.Decode(&body); err != nil {
		s.Handshake.Problem = err.Error()
		return
	}
	s.Handshake.Requested = true
	s.Handshake.KnownKey = s.tenant != nil && handshake.SameKey(body.PublicKey, s.tenant.Spec.PublicKey)
}

func (s *providerScene) observeAnswer() (err error) {
	m := s.newMessage(handshake.StepChallenge)
	m.Epoch = handshake.EpochOf(string(s.namespace.UID), s.nonce)
	s.challenge, s.challengeDigest, err = handshake.Encode(&m, handshake.Challenge{TenantNamespace: s.namespace.Name, Nonce: s.nonce})
	if err != nil || s.reply == nil || s.reply.Epoch != m.Epoch || s.reply.PreviousDigest != s.challengeDigest {
		return err
	}
	var answer handshake.Answer
	if err := s.reply.Decode(&answer); err != nil {
		s.Handshake.Problem = err.Error()
		return nil
	}
	if err := handshake.CheckAnswer(&answer, s.nonce, s.Consumer); err != nil {
		s.Handshake.Problem = err.Error()
		return nil
	}
	s.answer, s.Handshake.Answered = &answer, true
	if s.tenant != nil {
		s.Handshake.SameKey = handshake.SameKey(answer.PublicKey, s.tenant.Spec.PublicKey)
		key, _, err := authentication.ParseTenantPublicKey(s.tenant.Spec.PublicKey)
		if err == nil {
			s.Tenant.Signed, _ = authentication.VerifyNonce(key, s.nonce, s.tenant.Spec.Signature) // an error means that the key type is not known
		}
	}
	return nil
}

func (p providerSide) observeUse(ctx context.Context, s *providerScene) error {
	if !s.Release && !s.Unpeer {
		return nil
	}
	shadows := object.NewMetadataList(offloadingv1beta1.SchemeGroupVersion.WithKind("ShadowPodList"))
	if err := s.reader.List(ctx, shadows, client.MatchingLabels{object.OffloadedPodLabel: s.Name}); err != nil {
		return err
	}
	s.shadowPods, s.ShadowPods = shadows.Items, len(shadows.Items)
	if s.ShadowPods == 0 {
		// A pod has the labels of its ShadowPod, and may exist for its grace period after the
		// ShadowPod is gone. This bypasses the cache, because the agent does not cache pods.
		pods := object.NewMetadataList(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := p.opts.Reader.List(ctx, pods, client.MatchingLabels{object.OffloadedPodLabel: s.Name}); err != nil {
			return err
		}
		s.Pods = len(pods.Items)
	}
	if s.namespace == nil {
		return nil
	}
	quotas := object.NewMetadataList(offloadingv1beta1.SchemeGroupVersion.WithKind("QuotaList"))
	if err := s.reader.List(ctx, quotas, client.InNamespace(s.namespace.Name)); err != nil {
		return err
	}
	for i := range quotas.Items {
		if quotaOf(&quotas.Items[i], s.Name) {
			s.Quota = true
		}
	}
	return nil
}

// observeQuota checks, while a change of the reservation awaits an answer, whether Liqo grants or
// admits more than this cluster keeps for the placement. It bypasses the cache, because the
// broker lends the difference to others as soon as it has the answer.
func (p providerSide) observeQuota(ctx context.Context, s *providerScene) error {
	if s.Release || s.Unpeer || s.namespace == nil || s.inst.Spec.Change == 0 {
		return nil
	}
	var slice authv1beta1.ResourceSlice
	if _, err := object.Get(ctx, p.opts.Reader, s.namespace.Name, s.Name, &slice); err != nil {
		return err
	}
	s.Replica.Exceeds = s.Replica.Exceeds || exceedsKept(slice.Status.Resources, s.inst.Kept())
	var quotas offloadingv1beta1.QuotaList
	if err := p.opts.Reader.List(ctx, &quotas, client.InNamespace(s.namespace.Name)); err != nil {
		return err
	}
	for i := range quotas.Items {
		if q := &quotas.Items[i]; quotaOf(q, s.Name) && exceedsKept(q.Spec.Resources, s.inst.Kept()) {
			s.QuotaExceeds = true
		}
	}
	return nil
}

// exceedsKept reports whether any given amount is above the kept one. Pods need not be limited.
func exceedsKept(given, kept corev1.ResourceList) bool {
	for name, amount := range given {
		most, named := kept[name]
		if amount.Cmp(most) > 0 && (named || name != corev1.ResourcePods) {
			return true
		}
	}
	return false
}

// quotaOf reports whether a Quota belongs to the slice. Liqo names a Quota after its slice, followed
// by a dash and a digest of the consumer's ID.
func quotaOf(quota metav1.Object, slice string) bool {
	rest, ok := strings.CutPrefix(quota.GetName(), slice+"-")
	return ok && !strings.Contains(rest, "-")
}

func (p providerSide) observeUnpeering(ctx context.Context, s *providerScene) error {
	o, err := p.findOthers(ctx, s.inst, s.Consumer)
	if err != nil {
		return err
	}
	s.Siblings = o.provider
	if !s.Unpeer && !s.Reclaim || s.Siblings > 0 {
		return nil
	}
	for _, kind := range []schema.GroupVersionKind{
		authv1beta1.GroupVersion.WithKind("ResourceSlice"),
		authv1beta1.GroupVersion.WithKind("Renew"),
		offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMap"),
	} {
		items, err := object.ListOfPeer(ctx, p.opts.Reader, kind, s.Consumer)
		if err != nil {
			return err
		}
		for i := range items {
			if object.Replicated(&items[i]) {
				s.replicas = append(s.replicas, items[i])
			}
		}
	}
	s.Replicated = len(s.replicas)
	s.Home, err = p.viewHome(ctx, s.Consumer, s.namespace, o)
	return err
}
