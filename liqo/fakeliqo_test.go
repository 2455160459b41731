package liqo

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake/handshaketest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// tick is the interval of all controllers, and limit the longest wait of a test, in synctest's
// time.
const (
	tick  = 100 * time.Millisecond
	limit = 5 * time.Minute
)

// world is two clusters, rome and paris, and the broker between them.
type world struct {
	t     *testing.T
	sites map[string]*site

	// mu guards the following fields and each site's peering.
	mu sync.Mutex
	// mail holds the newest message of each slot, as in a broker.
	mail     map[string]v1.Message
	messages int
	// lossy drops every third message.
	lossy bool
	// networked is true when the clusters run Liqo's networking module.
	networked bool
	// lifetime is how long certificates signed by Liqo are valid; 0 means indefinitely. None of
	// them is renewed through the peering.
	lifetime time.Duration
	// lost are the resource versions of the replicas whose update failed, by the name of the slice.
	lost map[string]string
}

// site is a cluster: an API server in memory, the agent's peering, and Liqo's key.
type site struct {
	id     string
	client client.Client
	key    handshaketest.KeyPair
	// unattended clusters have no agent; their consumers have a kubeconfig.
	unattended bool
	peering    *Peering
	stop       context.CancelFunc
	stopped    chan struct{}
	// silent agents do nothing, and cut clusters reach no other cluster. A stale Liqo believes
	// that its replicas still exist.
	silent, cut, stale bool
	// refusing clusters reject updates of the slices of others.
	refusing bool
	// deaths records the writes after which the agent was killed; nil if it is never killed.
	deaths map[string]bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, sites: map[string]*site{}, mail: map[string]v1.Message{}, lost: map[string]string{}}
	for _, id := range []string{"rome", "paris"} {
		w.sites[id] = &site{id: id, client: newAPIServer(t)}
		w.newKey(id)
		w.start(id)
	}
	t.Cleanup(func() {
		for _, s := range w.sites {
			s.stop()
			<-s.stopped
		}
	})
	return w
}

func newAPIServer(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, rbacv1.AddToScheme, agentv1alpha1.AddToScheme, object.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	// The default tracker keeps managed fields. No test here reads them, and computing them would take most of the time.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).
		WithStatusSubresource(&agentv1alpha1.Advertisement{}, &authv1beta1.Tenant{}, &authv1beta1.Identity{}, &authv1beta1.ResourceSlice{}, &corev1.Node{},
			&agentv1alpha1.ProviderInstruction{}, &agentv1alpha1.ReservationInstruction{},
			&networkingv1beta1.Configuration{}, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.Connection{}).
		WithIndex(&agentv1alpha1.ReservationInstruction{}, "spec.targetClusterID", func(o client.Object) []string {
			return []string{o.(*agentv1alpha1.ReservationInstruction).Spec.TargetClusterID}
		}).
		WithIndex(&corev1.Event{}, "involvedObject.kind", func(o client.Object) []string {
			return []string{o.(*corev1.Event).InvolvedObject.Kind}
		}).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
			return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
		}).
		WithIndex(&corev1.Event{}, "type", func(o client.Object) []string {
			return []string{o.(*corev1.Event).Type}
		}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).
		WithIndex(&agentv1alpha1.ProviderInstruction{}, "spec.requesterClusterID", func(o client.Object) []string {
			return []string{o.(*agentv1alpha1.ProviderInstruction).Spec.RequesterClusterID}
		}).Build()
}

func (w *world) check(err error) {
	w.t.Helper()
	runtest.Check(w.t, err)
}

// newKey gives a new key pair to the cluster's Liqo.
func (w *world) newKey(id string) {
	w.t.Helper()
	s := w.sites[id]
	s.key = handshaketest.NewKeyPair(w.t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: object.KeysSecretName}}
	w.check(client.IgnoreNotFound(s.client.Delete(w.t.Context(), secret)))
	secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: object.KeysSecretName}, Data: map[string][]byte{
		consts.PrivateKeyField: s.key.PrivatePEM(w.t), consts.PublicKeyField: s.key.PEM,
	}}
	w.check(s.client.Create(w.t.Context(), secret))
}

func (w *world) start(id string) {
	w.t.Helper()
	s := w.sites[id]
	outbox := outbox.NewOutbox(clock.RealClock{})
	peering := New(Options{
		ReclaimAfter: reclaimAfter, GiveUpAfter: giveUpAfter,
		ClusterID: id, InstructionNamespace: "default", LiqoNamespace: "liqo", Clock: clock.RealClock{}, Client: mortal{s.client, s}, Reader: s.client,
		Messenger: sender{w, id}, Outbox: outbox, Verify: verifyNamed, Remote: w.remote, GatewayService: w.gatewayService(),
		Sign: func(payload []byte) ([]byte, error) { return append([]byte(id+"\n"), payload...), nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	s.peering, s.stop, s.stopped = peering, cancel, make(chan struct{})
	w.mu.Unlock()
	go func() { _ = outbox.Start(ctx); close(s.stopped) }()
}

func (w *world) remote(id string) (client.Client, error) {
	switch s := w.sites[id]; {
	case s.unattended && s.cut:
		return away{s.client}, nil
	case s.unattended:
		return s.client, nil
	}
	return nil, errors.New("no kubeconfig")
}

// away is the client of a cluster that does not answer.
type away struct{ client.Client }

func (away) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("connection refused")
}

// restart replaces the agent, so that its memory is lost. The broker delivers its messages again.
func (w *world) restart(id string) {
	w.t.Helper()
	w.sites[id].stop()
	<-w.sites[id].stopped
	w.start(id)
	for _, m := range w.newest()[id] {
		w.check(w.sites[id].peering.Deliver(w.t.Context(), m.From, m.Body))
	}
}

func (w *world) newest() map[string][]v1.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	to := map[string][]v1.Message{}
	for _, slot := range slices.Sorted(maps.Keys(w.mail)) {
		m := w.mail[slot]
		to[m.To] = append(to[m.To], m)
	}
	return to
}

func (w *world) sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.messages
}

func (w *world) loseMail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lossy = true
}

// post stores a message and returns its receiver, nil if the message is lost.
func (w *world) post(m v1.Message) *Peering {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.messages++
	if w.lossy && w.messages%3 == 0 {
		return nil
	}
	w.mail[m.Slot] = m
	return w.sites[m.To].peering
}

type sender struct {
	w    *world
	from string
}

func (s sender) SendMessage(ctx context.Context, msg *v1.Message) error {
	m := *msg
	m.From = s.from
	peering := s.w.post(m)
	if peering == nil {
		return nil
	}
	return peering.Deliver(ctx, s.from, m.Body)
}

// verifyNamed trusts the first line of an envelope as the signer.
func verifyNamed(envelope []byte) (string, []byte, error) {
	i := slices.Index(envelope, '\n')
	if i < 0 {
		return "", nil, errors.New("not signed")
	}
	return string(envelope[:i]), envelope[i+1:], nil
}

func (w *world) reserve(consumer, provider, name string) {
	w.t.Helper()
	kept := listOf("cpu", "1")
	object := metav1.ObjectMeta{
		Namespace: "default", Name: brokerv1alpha1.PlacementName(name, 1), UID: types.UID(name),
		CreationTimestamp: metav1.Now(), Finalizers: []string{agentv1alpha1.PeeringFinalizer},
	}
	w.check(w.sites[consumer].client.Create(w.t.Context(), &agentv1alpha1.ReservationInstruction{ObjectMeta: *object.DeepCopy(), Spec: agentv1alpha1.ReservationInstructionSpec{
		ReservationName: name, Placement: 1, TargetClusterID: provider, Resources: kept, Unattended: w.sites[provider].unattended,
	}}))
	if w.sites[provider].unattended {
		return
	}
	inst := &agentv1alpha1.ProviderInstruction{ObjectMeta: *object.DeepCopy(), Spec: agentv1alpha1.ProviderInstructionSpec{
		ReservationName: name, Placement: 1, RequesterClusterID: consumer, Resources: kept,
	}}
	w.check(w.sites[provider].client.Create(w.t.Context(), inst))
	inst.Status.Enforced = true
	w.check(w.sites[provider].client.Status().Update(w.t.Context(), inst))
}

func (w *world) setRelease(consumer, provider, name string, unpeer bool) {
	w.t.Helper()
	var c agentv1alpha1.ReservationInstruction
	key := client.ObjectKey{Namespace: "default", Name: brokerv1alpha1.PlacementName(name, 1)}
	if found, err := object.Get(w.t.Context(), w.sites[consumer].client, key.Namespace, key.Name, &c); found {
		c.Spec.Release = true
		w.check(w.sites[consumer].client.Update(w.t.Context(), &c))
	} else {
		w.check(err)
	}
	if w.sites[provider].unattended {
		return
	}
	var p agentv1alpha1.ProviderInstruction
	w.check(w.sites[provider].client.Get(w.t.Context(), key, &p))
	p.Spec.Release, p.Spec.Unpeer = true, unpeer
	w.check(w.sites[provider].client.Update(w.t.Context(), &p))
}

// release ends a placement as the broker would: the provider unpeers after the consumer is done.
func (w *world) release(consumer, provider, name string, after func(*world)) {
	w.t.Helper()
	w.setRelease(consumer, provider, name, false)
	w.until("the consumer's instruction is gone", after, func() bool {
		return !w.exists(consumer, "default", brokerv1alpha1.PlacementName(name, 1), &agentv1alpha1.ReservationInstruction{})
	})
	w.setRelease(consumer, provider, name, true)
	w.until("the provider's instruction is gone", after, func() bool {
		return !w.exists(provider, "default", brokerv1alpha1.PlacementName(name, 1), &agentv1alpha1.ProviderInstruction{})
	})
}

// until runs all sites until done returns true. After each tick, it calls the function after, unless that is nil.
func (w *world) until(what string, after func(*world), done func() bool) {
	w.t.Helper()
	for range int(limit / tick) {
		w.tick()
		if done() {
			return
		}
		if after != nil {
			after(w)
		}
	}
	w.t.Fatalf("%s: not after %v", what, limit)
}

func (w *world) run(d time.Duration) {
	w.t.Helper()
	for range int(d / tick) {
		w.tick()
	}
}

func (w *world) tick() {
	w.t.Helper()
	for _, id := range []string{"rome", "paris"} {
		if s := w.sites[id]; !s.silent {
			s.step(w)
		}
	}
	w.liqo("rome", "paris")
	w.liqo("paris", "rome")
	w.network("rome", "paris")
	w.network("paris", "rome")
	time.Sleep(tick)
	synctest.Wait()
}

// step runs the agent's controllers once.
func (s *site) step(w *world) {
	w.t.Helper()
	if s.unattended {
		return
	}
	ctx := w.t.Context()
	var consumer agentv1alpha1.ReservationInstructionList
	w.check(s.client.List(ctx, &consumer))
	for i := range consumer.Items {
		s.noteDeparture(w, &consumer.Items[i])
		state, err := s.peering.Consume(ctx, &consumer.Items[i])
		if s.killed(w, err) {
			return
		}
		if state.Done {
			_, err = s.peering.DepartConsumer(ctx, &consumer.Items[i])
			if s.killed(w, err) {
				return
			}
		}
	}
	var provider agentv1alpha1.ProviderInstructionList
	w.check(s.client.List(ctx, &provider))
	for i := range provider.Items {
		s.noteRelease(w, &provider.Items[i])
		state, err := s.peering.Provide(ctx, &provider.Items[i])
		if s.killed(w, err) {
			return
		}
		if state.Done {
			_, err = s.peering.DepartProvider(ctx, &provider.Items[i])
			if s.killed(w, err) {
				return
			}
		}
	}
	var replicas authv1beta1.ResourceSliceList
	w.check(s.client.List(ctx, &replicas))
	for i := range replicas.Items {
		key := client.ObjectKeyFromObject(&replicas.Items[i])
		_, err := s.peering.ResendSlice(ctx, key)
		w.check(err)
		w.check(s.peering.Grant(ctx, key, guard.Place{}))
	}
}

// liqo runs Liqo in both clusters once, for one direction.
func (w *world) liqo(consumer, provider string) {
	w.t.Helper()
	w.sign(provider, consumer)
	w.drain(provider, consumer)
	w.collectPods(provider)
	w.makeKubeconfig(consumer, provider)
	w.collectNamespace(consumer, provider)
	w.collectNamespace(provider, consumer)
	at, there := object.TenantNamespaceName(provider), object.TenantNamespaceName(consumer)
	var local, remote authv1beta1.ResourceSliceList
	w.check(w.sites[consumer].client.List(w.t.Context(), &local, client.InNamespace(at)))
	for i := range local.Items {
		s := &local.Items[i]
		switch {
		case object.Replicated(s):
		case s.DeletionTimestamp != nil:
			w.letGo(s, consumer, provider)
		case w.connected(consumer, provider):
			w.replicate(s, consumer, provider)
		}
	}
	w.collectNodes(consumer, at)
	w.check(w.sites[provider].client.List(w.t.Context(), &remote, client.InNamespace(there), client.MatchingLabels{object.OriginLabel: consumer}))
	for i := range remote.Items {
		r := &remote.Items[i]
		if !w.exists(consumer, at, r.Name, &authv1beta1.ResourceSlice{}) && w.connected(consumer, provider) {
			w.takeDown(r, consumer, provider)
		}
	}
}

// connected reports whether the consumer's identity currently works at the provider.
func (w *world) connected(consumer, provider string) bool {
	w.t.Helper()
	var identity authv1beta1.Identity
	found, err := object.Get(w.t.Context(), w.sites[consumer].client, object.TenantNamespaceName(provider), object.IdentityName(provider), &identity)
	w.check(err)
	return found && identity.Status.KubeconfigSecretRef != nil &&
		handshake.CertificateFits(identity.Spec.AuthParams.SignedCRT, w.sites[consumer].key.DER, consumer) &&
		time.Now().Before(handshake.ParseCertificate(identity.Spec.AuthParams.SignedCRT).NotAfter) && !w.sites[consumer].cut && !w.sites[provider].cut && w.mayReplicate(provider, consumer)
}

// sign fills the status of a Tenant whose signature is valid, as Liqo does.
func (w *world) sign(provider, consumer string) {
	w.t.Helper()
	c, ns := w.sites[provider].client, object.TenantNamespaceName(consumer)
	var tenant authv1beta1.Tenant
	var nonce corev1.Secret
	if found, err := object.Get(w.t.Context(), c, ns, consumer, &tenant); !found || tenant.Status.AuthParams != nil && !w.isDue(&tenant) {
		w.check(err)
		return
	}
	w.check(c.Get(w.t.Context(), client.ObjectKey{Namespace: ns, Name: object.NonceSecretName}, &nonce))
	if !w.keepsRequest(provider, ns, tenant.Spec.CSR) {
		return
	}
	answer := &handshake.Answer{PublicKey: tenant.Spec.PublicKey, CSR: tenant.Spec.CSR, Signature: tenant.Spec.Signature}
	w.check(handshake.CheckAnswer(answer, nonce.Data[consts.NonceSecretField], consumer))
	tenant.Status = authv1beta1.TenantStatus{TenantNamespace: ns, AuthParams: &authv1beta1.AuthParams{
		APIServer: "https://" + provider + ".example", SignedCRT: w.certificate(consumer),
	}}
	w.check(c.Status().Update(w.t.Context(), &tenant))
}

func (w *world) certificate(consumer string) []byte {
	w.t.Helper()
	if w.lifetime == 0 {
		return w.sites[consumer].key.Certificate(w.t, consumer)
	}
	now := time.Now().Truncate(time.Second)
	return w.sites[consumer].key.CertificateFor(w.t, consumer, now, now.Add(w.lifetime))
}

// isDue reports whether Liqo has the Tenant's certificate signed again.
func (w *world) isDue(tenant *authv1beta1.Tenant) bool {
	w.t.Helper()
	crt := handshake.ParseCertificate(tenant.Status.AuthParams.SignedCRT)
	return w.lifetime > 0 && !time.Now().Before(crt.NotAfter.Add(-w.lifetime/3))
}

// keepsRequest reports whether Liqo signs the request. Liqo keeps the signed request even after
// the Tenant is deleted, and signs no other request beside it.
func (w *world) keepsRequest(provider, namespace string, csr []byte) bool {
	w.t.Helper()
	var kept corev1.Secret
	if w.exists(provider, namespace, object.CertificateSecretName, &kept) {
		return bytes.Equal(kept.Data["csr"], csr)
	}
	kept.Namespace, kept.Name, kept.Data = namespace, object.CertificateSecretName, map[string][]byte{"csr": csr}
	w.check(w.sites[provider].client.Create(w.t.Context(), &kept))
	return true
}

func (w *world) makeKubeconfig(consumer, provider string) {
	w.t.Helper()
	c, ns := w.sites[consumer].client, object.TenantNamespaceName(provider)
	var identity authv1beta1.Identity
	renew := &authv1beta1.Renew{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: object.IdentityName(provider), Labels: map[string]string{consts.RemoteClusterID: provider},
	}}
	found, err := object.Get(w.t.Context(), c, ns, object.IdentityName(provider), &identity)
	w.check(err)
	if !found {
		w.check(client.IgnoreNotFound(c.Delete(w.t.Context(), renew)))
		return
	}
	if identity.Status.KubeconfigSecretRef == nil {
		identity.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "kubeconfig-" + identity.Name}
		w.check(c.Status().Update(w.t.Context(), &identity))
		w.check(client.IgnoreAlreadyExists(c.Create(w.t.Context(), renew)))
	}
}

// collectNamespace removes the content of a deleted tenant namespace.
func (w *world) collectNamespace(id, peer string) {
	w.t.Helper()
	c, ns := w.sites[id].client, object.TenantNamespaceName(peer)
	if !w.exists(id, "", ns, &corev1.Namespace{}) {
		for _, name := range []string{object.NonceSecretName, object.CertificateSecretName} {
			w.delete(id, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
		}
		return
	}
	fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer}}
	w.check(client.IgnoreAlreadyExists(c.Create(w.t.Context(), fc)))
}

// replicate copies the slice to the provider and its status back, and creates the objects that
// Liqo derives from it.
func (w *world) replicate(s *authv1beta1.ResourceSlice, consumer, provider string) {
	w.t.Helper()
	ctx, remote, there := w.t.Context(), w.sites[provider].client, object.TenantNamespaceName(consumer)
	replica := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: there, Name: s.Name}}
	if w.losesUpdate(s, provider, there) {
		return
	}
	_, err := controllerutil.CreateOrUpdate(ctx, remote, replica, func() error {
		replica.Labels = maps.Clone(s.Labels)
		maps.Copy(replica.Labels, map[string]string{object.ReplicatedLabel: "true", object.OriginLabel: consumer, consts.RemoteClusterID: consumer})
		replica.Spec = *s.Spec.DeepCopy()
		replica.Spec.ConsumerClusterID = new(liqov1beta1.ClusterID(consumer))
		replica.Spec.CSR = []byte("certificate request")
		return nil
	})
	w.check(err)
	if controllerutil.AddFinalizer(s, replicatorFinalizer) {
		w.check(w.sites[consumer].client.Update(ctx, s))
	}
	if !guard.Authenticated(replica) {
		replica.Status.Conditions = append(replica.Status.Conditions, authv1beta1.ResourceSliceCondition{
			Type: authv1beta1.ResourceSliceConditionTypeAuthentication, Status: authv1beta1.ResourceSliceConditionAccepted,
		})
		w.check(remote.Status().Update(ctx, replica))
	}
	s.Status = *replica.Status.DeepCopy()
	w.check(w.sites[consumer].client.Status().Update(ctx, s))
	if !replicaView(replica).Granted {
		return
	}
	quota := &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: there, Name: authentication.CommonNameResourceSliceCSR(replica)}}
	w.check(client.IgnoreAlreadyExists(remote.Create(ctx, quota)))
	w.makeNode(s, consumer, provider)
}

// losesUpdate reports whether Liqo's replicator does not send the slice: its last update failed, and the replica has
// not changed since. Liqo then believes that it has sent the update.
func (w *world) losesUpdate(s *authv1beta1.ResourceSlice, provider, there string) bool {
	w.t.Helper()
	replica := &authv1beta1.ResourceSlice{}
	if !w.exists(provider, there, s.Name, replica) {
		return false
	}
	if w.sites[provider].refusing && !equality.Semantic.DeepEqual(replica.Spec.Resources, s.Spec.Resources) {
		w.lost[s.Name] = replica.ResourceVersion
	}
	return w.lost[s.Name] == replica.ResourceVersion
}

func (w *world) makeNode(s *authv1beta1.ResourceSlice, consumer, provider string) {
	w.t.Helper()
	ctx, c := w.t.Context(), w.sites[consumer].client
	vn := &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{consts.RemoteClusterID: provider},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "authentication.liqo.io/v1beta1", Kind: "ResourceSlice", Name: s.Name, UID: "u"}},
	}}
	w.check(client.IgnoreAlreadyExists(c.Create(ctx, vn)))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	if err := c.Create(ctx, node); apierrors.IsAlreadyExists(err) {
		return
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.check(c.Status().Update(ctx, node))
}

// takeDown removes a replica whose slice is gone, and the objects that Liqo derived from it.
func (w *world) takeDown(replica *authv1beta1.ResourceSlice, consumer, provider string) {
	w.t.Helper()
	w.delete(provider, &offloadingv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{
		Namespace: replica.Namespace, Name: authentication.CommonNameResourceSliceCSR(replica),
	}})
	w.delete(provider, replica)
	w.deleteNode(consumer, object.TenantNamespaceName(provider), replica.Name)
}

func (w *world) deleteNode(consumer, namespace, name string) {
	w.t.Helper()
	w.delete(consumer, &offloadingv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	w.delete(consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (w *world) delete(id string, obj client.Object) {
	w.t.Helper()
	w.check(client.IgnoreNotFound(w.sites[id].client.Delete(w.t.Context(), obj)))
}

// disown removes the agent's label, as if the agent had not made the object.
func (w *world) disown(id string, obj client.Object) {
	w.t.Helper()
	c := w.sites[id].client
	w.check(c.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj))
	labels := obj.GetLabels()
	delete(labels, agentv1alpha1.ManagedByLabel)
	obj.SetLabels(labels)
	w.check(c.Update(w.t.Context(), obj))
}

func (w *world) exists(id, namespace, name string, into client.Object) bool {
	w.t.Helper()
	found, err := object.Get(w.t.Context(), w.sites[id].client, namespace, name, into)
	w.check(err)
	return found
}

func (w *world) nodeReady(id, name string) bool {
	w.t.Helper()
	var node corev1.Node
	return w.exists(id, "", name, &node) && nodeView(&node).Ready
}

func (w *world) anyInstruction() bool {
	w.t.Helper()
	left := 0
	for _, s := range w.sites {
		for _, list := range []client.ObjectList{&agentv1alpha1.ReservationInstructionList{}, &agentv1alpha1.ProviderInstructionList{}} {
			left += w.count(s, list)
		}
	}
	return left > 0
}

func (w *world) wantEmpty() {
	w.t.Helper()
	w.tick()
	for id, s := range w.sites {
		for _, list := range []client.ObjectList{
			&corev1.NamespaceList{}, &corev1.NodeList{}, &authv1beta1.TenantList{}, &authv1beta1.IdentityList{}, &authv1beta1.RenewList{},
			&authv1beta1.ResourceSliceList{}, &offloadingv1beta1.VirtualNodeList{}, &offloadingv1beta1.QuotaList{},
			&networkingv1beta1.ConfigurationList{}, &networkingv1beta1.GatewayServerList{}, &networkingv1beta1.GatewayClientList{},
			&networkingv1beta1.PublicKeyList{}, &networkingv1beta1.ConnectionList{},
			&liqov1beta1.ForeignClusterList{}, &agentv1alpha1.ReservationInstructionList{}, &agentv1alpha1.ProviderInstructionList{},
		} {
			if n := w.count(s, list); n > 0 {
				w.t.Errorf("%s: %d objects are left in a %T", id, n, list)
			}
		}
	}
}

func (w *world) count(s *site, list client.ObjectList) int {
	w.t.Helper()
	w.check(s.client.List(w.t.Context(), list))
	return meta.LenList(list)
}
