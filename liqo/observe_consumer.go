package liqo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/drain"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// consumerScene is a ConsumerView, together with the objects and messages from which it was made.
type consumerScene struct {
	plan.ConsumerView
	scene
	inst *agentv1alpha1.ReservationInstruction
	// all contains all ReservationInstructions of this cluster, and standing those for the provider
	// that have not ended, oldest first.
	all      []agentv1alpha1.ReservationInstruction
	standing []*agentv1alpha1.ReservationInstruction

	key      *handshake.ClusterKey
	identity *authv1beta1.Identity
	slice    *authv1beta1.ResourceSlice
	node     *corev1.Node
	// renewal is the delay after which the identity's certificate must be checked again; 0 for never.
	renewal     time.Duration
	challenge   *handshake.Received
	answer      answered
	credentials *handshake.Credentials
	offloading  map[string]*offloadingv1beta1.NamespaceOffloading
	// server is the text that the action RecordServer writes into an annotation of the tenant namespace;
	// "" if there is nothing to write.
	server string
}

// observeConsumer returns what exists for a placement in this cluster. It reads through the cache. For
// an ended placement without a node it reads a second time, bypassing the cache, because the cache may not
// show the newest objects yet.
func (p consumerSide) observeConsumer(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (*consumerScene, error) {
	s, err := p.viewConsumer(ctx, p.opts.Client, inst)
	if err != nil || !s.Release || !s.IsDrained() {
		return s, err
	}
	if s, err = p.viewConsumer(ctx, p.opts.Reader, inst); err != nil || !s.IsDrained() {
		return s, err
	}
	return s, p.observeDeparture(ctx, s)
}

func (p consumerSide) viewConsumer(ctx context.Context, r client.Reader, inst *agentv1alpha1.ReservationInstruction) (*consumerScene, error) {
	s := &consumerScene{inst: inst, scene: scene{
		reader: r, now: p.opts.Clock.Now(), pair: handshake.Pair{Consumer: p.opts.ClusterID, Provider: inst.Spec.TargetClusterID},
	}}
	s.Provider, s.Release = inst.Spec.TargetClusterID, inst.Ended()
	s.Name = inst.PlacementName()
	var list agentv1alpha1.ReservationInstructionList
	if err := p.opts.Client.List(ctx, &list, client.InNamespace(p.opts.InstructionNamespace)); err != nil {
		return nil, err
	}
	s.all = list.Items
	s.standing = oldestFirst(s.all, func(i *agentv1alpha1.ReservationInstruction) bool {
		return i.Spec.TargetClusterID == s.Provider && !i.Ended()
	})
	s.live = placementNames(s.standing)
	var err error
	if s.namespace, err = object.FindTenantNamespace(ctx, r, s.Provider); err != nil {
		return nil, err
	}
	s.Namespace = object.ViewOfNamespace(s.namespace)
	for _, observe := range []func(context.Context, *consumerScene) error{
		p.observeSlice, p.observeDrain, p.observeIdentity, p.observeOffloading, p.observeConsumerHandshake, p.observeReach, p.observeHealth,
	} {
		if err := observe(ctx, s); err != nil {
			return nil, err
		}
	}
	s.Network, err = p.observeNetwork(ctx, &s.scene, s.Release)
	return s, err
}

func (p consumerSide) observeSlice(ctx context.Context, s *consumerScene) error {
	if s.namespace != nil {
		var slice authv1beta1.ResourceSlice
		found, err := object.Get(ctx, s.reader, s.namespace.Name, s.Name, &slice)
		if err != nil {
			return err
		}
		if found {
			s.slice, s.Slice = &slice, sliceView(&slice, s.inst.Spec.Resources)
		}
		var vn offloadingv1beta1.VirtualNode
		if found, err = object.Get(ctx, s.reader, s.namespace.Name, s.Name, &vn); err != nil {
			return err
		}
		if found {
			s.VirtualNode = object.ViewOf(&vn)
		}
	}
	var node corev1.Node
	found, err := object.Get(ctx, s.reader, "", s.Name, &node)
	if found {
		s.node, s.Node = &node, nodeView(&node)
		s.Node.Opened = isOpened(&node, s.inst)
	}
	return err
}

func sliceView(slice *authv1beta1.ResourceSlice, reserved corev1.ResourceList) plan.SliceView {
	v := plan.SliceView{ObjectView: object.ViewOf(slice), Current: equality.Semantic.DeepEqual(slice.Spec.Resources, sliceResources(slice.Spec.Resources, reserved))}
	v.Nudged = slice.Annotations[nudgedAnnotation] == "true"
	if c := authentication.GetCondition(slice, authv1beta1.ResourceSliceConditionTypeResources); c != nil {
		v.Denied, v.Message = c.Status == authv1beta1.ResourceSliceConditionDenied, c.Message
	}
	return v
}

// sliceResources returns the resources that a slice must request. before are the resources that it
// requests now. A resource that is no longer reserved is set to zero, because Liqo does not revoke a
// resource that is merely left out.
func sliceResources(before, reserved corev1.ResourceList) corev1.ResourceList {
	out := reserved.DeepCopy()
	for name := range before {
		if _, still := reserved[name]; !still {
			out[name] = resource.Quantity{}
		}
	}
	return out
}

func nodeView(node *corev1.Node) plan.NodeView {
	v := plan.NodeView{Exists: true, Cordoned: drain.IsCordoned(node)}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			v.Ready, v.Message = c.Status == corev1.ConditionTrue && node.DeletionTimestamp == nil, c.Message
		}
	}
	v.Tainted = slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	return v
}

func (p consumerSide) observeIdentity(ctx context.Context, s *consumerScene) error {
	if s.namespace == nil {
		return nil
	}
	var identity authv1beta1.Identity
	found, err := object.Get(ctx, s.reader, s.namespace.Name, object.IdentityName(s.Provider), &identity)
	if err != nil {
		return err
	}
	if found {
		s.identity = &identity
		ref := identity.Status.KubeconfigSecretRef
		s.Identity = plan.IdentityView{ObjectView: object.ViewOf(&identity), Name: identity.Name, Ready: ref != nil && ref.Name != ""}
		s.observeParting()
	}
	renew := object.NewMetadata(authv1beta1.GroupVersion.WithKind("Renew"))
	s.Identity.Renewing, err = object.Get(ctx, s.reader, s.namespace.Name, object.IdentityName(s.Provider), renew)
	return err
}

func (p consumerSide) observeConsumerHandshake(ctx context.Context, s *consumerScene) (err error) {
	if s.Release || s.namespace == nil {
		return nil
	}
	challenge, credentials := p.mailbox.Get(s.pair, handshake.StepChallenge), p.mailbox.Get(s.pair, handshake.StepCredentials)
	if s.key, err = p.clusterKey(ctx); err != nil {
		return err
	}
	if s.identity != nil {
		s.Identity.Fits = handshake.CertificateFits(s.identity.Spec.AuthParams.SignedCRT, s.key.DER, p.opts.ClusterID)
		s.observeLifetime()
	}
	if challenge != nil && s.isLive(challenge.Placement) {
		s.challenge = challenge
		s.answer, err = p.answerChallenge(s)
		switch {
		case errors.Is(err, handshake.ErrRefused):
			s.challenge, s.Handshake.Problem = nil, err.Error()
		case err != nil:
			return err
		default:
			s.Handshake.Challenged = true
		}
	}
	if credentials != nil && s.isLive(credentials.Placement) && s.isCurrent(credentials) {
		p.readCredentials(ctx, s, credentials)
	}
	p.observeServer(ctx, s)
	s.observeMisled()
	return nil
}

// observeLifetime determines when the certificate needs attention. Liqo renews it when two thirds to
// three quarters of its lifetime have passed. If it has not been renewed after five sixths, the agent
// asks the provider for a new one. An expired certificate cannot be renewed by Liqo.
func (s *consumerScene) observeLifetime() {
	crt := handshake.ParseCertificate(s.identity.Spec.AuthParams.SignedCRT)
	if crt == nil {
		return
	}
	due := crt.NotAfter.Add(-crt.NotAfter.Sub(crt.NotBefore) / 6)
	s.Identity.Due, s.Identity.Expired = !s.now.Before(due), !s.now.Before(crt.NotAfter)
	s.renewal = max(due.Sub(s.now), 0)
	if s.Identity.Due {
		s.renewal = max(crt.NotAfter.Sub(s.now), 0)
	}
}

// isCurrent reports whether credentials belong to the current handshake. isCurrent cannot tell if this cluster
// requested the credentials itself, or has not answered a challenge since its agent started. In these cases, it returns
// true if the identity does not work or is due for renewal. readCredentials then applies the credentials only if their
// certificate is newer than a working one.
func (s *consumerScene) isCurrent(credentials *handshake.Received) bool {
	if s.challenge != nil && credentials.Epoch == s.challenge.Epoch && credentials.PreviousDigest == s.answer.digest {
		return true
	}
	return (!s.Identity.Works() || s.Identity.Due) && (credentials.PreviousDigest == "" || s.challenge == nil)
}

func (p consumerSide) readCredentials(ctx context.Context, s *consumerScene, r *handshake.Received) {
	var c handshake.Credentials
	err := r.Decode(&c)
	if err == nil {
		err = p.acceptCredentials(ctx, s, &c)
	}
	if err != nil {
		s.Handshake.Problem = fmt.Sprintf("credentials of %q: %v", s.Provider, err)
		return
	}
	s.credentials, s.Handshake.Credentials = &c, true
	if s.Identity.IsComplete() && !handshake.IssuedLater(c.SignedCRT, s.identity.Spec.AuthParams.SignedCRT) {
		// The certificate is not newer than the present one: the message is a repetition, and Liqo has
		// renewed the certificate since.
		s.Handshake.Applied = true
		return
	}
	if s.identity != nil {
		remote := s.identity.Spec.Namespace
		s.Handshake.Applied = remote != nil && *remote == c.TenantNamespace &&
			equality.Semantic.DeepEqual(s.identity.Spec.AuthParams, c.AuthParams())
	}
}

// acceptCredentials returns an error for credentials of another cluster, and for credentials that
// direct this cluster's Liqo to another API server than the provider advertises, or to an address
// or proxy that is not allowed.
func (p consumerSide) acceptCredentials(ctx context.Context, s *consumerScene, c *handshake.Credentials) error {
	if err := handshake.CheckCredentials(c, s.key.DER, p.opts.ClusterID); err != nil {
		return err
	}
	if err := handshake.CheckServer(c.APIServer, s.advertisedEndpoint()); err != nil {
		return err
	}
	if err := p.checkProxy(c.ProxyURL); err != nil {
		return err
	}
	return p.checkEndpoint(ctx, s.Provider, c.APIServer)
}

// observeDeparture also reads what is left of the provider here if no other placement is there.
func (p consumerSide) observeDeparture(ctx context.Context, s *consumerScene) error {
	o, err := p.findOthers(ctx, s.inst, s.Provider)
	if err != nil {
		return err
	}
	if s.Siblings = o.consumer; s.Siblings == 0 {
		s.Home, err = p.viewHome(ctx, s.Provider, s.namespace, o)
	}
	return err
}

func (p consumerSide) observeDrain(ctx context.Context, s *consumerScene) (err error) {
	if !s.Release || !s.Slice.IsUsable() || !s.Slice.Ours || !s.Node.Exists {
		return nil
	}
	s.Drain, err = p.drainer.Observe(ctx, s.drainTarget(), s.all, s.now)
	return err
}

func (s *consumerScene) drainTarget() drain.Target {
	return drain.Target{Placement: s.Name, Instruction: s.inst, Node: s.node}
}
