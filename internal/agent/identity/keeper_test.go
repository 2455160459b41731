package identity

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity/identitytest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestKeeper groups the tests that need a real API server.
func TestKeeper(t *testing.T) {
	cluster := controlplanetest.Start(t)
	clientset, err := kubernetes.NewForConfig(cluster.RESTConfig())
	runtest.Check(t, err)
	for name, test := range map[string]func(*testing.T, *home){
		"a token gives a certificate":                           testToken,
		"an account in the cluster of the broker is enough":     testAccount,
		"a cluster without token waits for approval":            testApproval,
		"a token that expired is named, and what to do":         testExpiredToken,
		"a token that another key used is named":                testUsedToken,
		"a denied cluster asks again, slowly":                   testDenied,
		"a broker that is away is asked again":                  testBrokerAway,
		"somebody who poses as the broker is not asked":         testWrongCA,
		"a broker of another trust domain is followed":          testTrustDomain,
		"an answer of no use is not stored":                     testUselessAnswer,
		"no way to a certificate says what to give":             testStuck,
		"a half written secret is written anew":                 testHalfWritten,
		"a secret that loses the certificate gets it back":      testRestore,
		"a certificate that is edited by hand gets into use":    testEdited,
		"the certificate is renewed at two thirds, with a key":  testRenewal,
		"a renewal that fails is shown until it succeeds":       testFailingRenewal,
		"new roots of the broker are fetched":                   testOutdated,
		"a certificate that the broker refuses is enrolled for": testUntrusted,
		"a certificate that expired is enrolled for":            testExpired,
		"a clock that is ahead renews no more than it has to":   testClockAhead,
		"replicas agree on one certificate":                     testReplicas,
		"killed at every step":                                  func(t *testing.T, h *home) { testKilled(t, h, cluster.Kubeconfig()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newHome(t, clientset, name))
		})
	}
}

// home is a cluster with an agent, and its broker.
type home struct {
	*identitytest.Site
	clock     *clocktesting.FakeClock
	clientset kubernetes.Interface
	secret    types.NamespacedName
	dir       string
	token     string
}

func newHome(t *testing.T, clientset kubernetes.Interface, name string) *home {
	t.Helper()
	h := &home{
		clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)), clientset: clientset, dir: t.TempDir(), token: identitytest.Token,
		secret: types.NamespacedName{Namespace: "default", Name: strings.NewReplacer(" ", "-", ",", "").Replace(name)},
	}
	h.Site = identitytest.New(t, h.clock)
	return h
}

func (h *home) options(t *testing.T) Options {
	return Options{
		Client: h.clientset, Secret: h.secret, Dir: h.dir, ClusterID: "rome",
		Enroller: h.Enroller(t, h.CAHash(t)), Token: h.token, Clock: h.clock, Log: logr.Discard(),
	}
}

// keeper returns a Keeper that has performed no step yet; edits change its options.
func (h *home) keeper(t *testing.T, edits ...func(*Options)) *Keeper {
	t.Helper()
	o := h.options(t)
	for _, edit := range edits {
		edit(&o)
	}
	return New(o)
}

// enrolled returns a Keeper that has a certificate and renews it.
func (h *home) enrolled(t *testing.T, edits ...func(*Options)) *Keeper {
	t.Helper()
	k := h.keeper(t, edits...)
	h.settle(t, k)
	runtest.Check(t, k.Trouble())
	h.renewing(t, k)
	return k
}

func (h *home) renewing(t *testing.T, k *Keeper) {
	t.Helper()
	files, err := pki.OpenFiles(h.dir, h.clock.Now)
	runtest.Check(t, err)
	tr, err := httptransport.New(httptransport.Options{URLs: []string{h.URL}, Files: files})
	runtest.Check(t, err)
	t.Cleanup(func() { _ = tr.Close() }) // Close never fails
	k.RenewWith(tr, elected())
}

// elected returns a closed channel, as a leading replica has it.
func elected() <-chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}

// settle performs steps until the next one is due later, and returns when.
func (h *home) settle(t *testing.T, k *Keeper) time.Time {
	t.Helper()
	for range 20 {
		if _, again := k.performStep(t.Context()); again.After(h.clock.Now()) {
			return again
		}
	}
	t.Fatal("always something to do at once")
	return time.Time{}
}

// until advances the clock to each next step until the condition holds.
func (h *home) until(t *testing.T, k *Keeper, holds func() bool) {
	t.Helper()
	for range 50 {
		again := h.settle(t, k)
		if holds() {
			return
		}
		h.clock.SetTime(again)
	}
	t.Fatalf("it does not come true; trouble: %v", k.Trouble())
}

func (h *home) state(t *testing.T) State {
	t.Helper()
	return ReadState(h.data(t))
}

func (h *home) data(t *testing.T) map[string][]byte {
	t.Helper()
	object, err := h.clientset.CoreV1().Secrets(h.secret.Namespace).Get(t.Context(), h.secret.Name, metav1.GetOptions{})
	runtest.Check(t, err)
	return object.Data
}

// overwrite edits the Secret as a user would.
func (h *home) overwrite(t *testing.T, edit func(data map[string][]byte)) {
	t.Helper()
	secrets := h.clientset.CoreV1().Secrets(h.secret.Namespace)
	object, err := secrets.Get(t.Context(), h.secret.Name, metav1.GetOptions{})
	if err != nil {
		object = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: h.secret.Name}, Data: map[string][]byte{}}
		edit(object.Data)
		_, err = secrets.Create(t.Context(), object, metav1.CreateOptions{})
	} else {
		edit(object.Data)
		_, err = secrets.Update(t.Context(), object, metav1.UpdateOptions{})
	}
	runtest.Check(t, err)
}

// wantIdentity checks that Secret and files hold the same valid certificate.
func (h *home) wantIdentity(t *testing.T) *Certificate {
	t.Helper()
	state := h.state(t)
	if state.Certificate == nil || state.Request != nil || state.Problems != nil {
		t.Fatalf("secret: certificate %v, request %v, problems %v", state.Certificate != nil, state.Request != nil, state.Problems)
	}
	files, err := pki.OpenFiles(h.dir, h.clock.Now)
	runtest.Check(t, err)
	credentials, err := files.Current()
	runtest.Check(t, err)
	if !credentials.Certificate.Leaf.Equal(state.Certificate.Leaf) || credentials.TrustDigest() != state.Certificate.trustDigest {
		t.Error("the files hold other than the secret")
	}
	if id, err := files.ClusterID(); id != "rome" || err != nil {
		t.Errorf("certificate of %q, %v", id, err)
	}
	return state.Certificate
}

func wantTrouble(t *testing.T, k *Keeper, reason fault.Reason, texts ...string) {
	t.Helper()
	err := k.Trouble()
	if err == nil || fault.ReasonOf(err) != reason {
		t.Fatalf("trouble %v, want one with reason %q", err, reason)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("trouble %q does not say %q", err, text)
		}
	}
}

func testToken(t *testing.T, h *home) {
	k := h.keeper(t)
	again := h.settle(t, k)
	c := h.wantIdentity(t)
	if k.Trouble() != nil || again != c.Leaf.NotAfter {
		t.Errorf("trouble %v, next step %s", k.Trouble(), again)
	}
	if len(h.Enrolled()) != 1 || h.Issued() != 1 {
		t.Errorf("asked %d times, issued %d", len(h.Enrolled()), h.Issued())
	}
	if diff := cmp.Diff([]string{h.URL}, c.BrokerURLs); diff != "" {
		t.Errorf("broker's addresses (-want +got):\n%s", diff)
	}
	// A new process finds everything in place.
	h.settle(t, h.keeper(t))
	if h.Issued() != 1 {
		t.Error("a restart asked for another certificate")
	}
}

// account is a cluster that authenticates without a certificate.
type account struct {
	*identitytest.Registry
	domain string
}

func (a account) RenewCertificate(ctx context.Context, q *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	return a.Renew(ctx, "rome", q)
}

func (a account) Ping(context.Context) (*v1.Pong, error) { return &v1.Pong{TrustDomain: a.domain}, nil }

func testAccount(t *testing.T, h *home) {
	k := h.keeper(t, func(o *Options) { o.Token, o.Enroller = "", Account{account{Registry: h.Registry}} })
	h.settle(t, k)
	wantTrouble(t, k, "", "issues no certificates", "install a certificate by hand")

	k = h.keeper(t, func(o *Options) { o.Token, o.Enroller = "", Account{account{h.Registry, identitytest.TrustDomain}} })
	h.settle(t, k)
	h.wantIdentity(t)
	if k.Trouble() != nil || len(h.Enrolled()) > 0 || len(h.Renewed()) != 1 {
		t.Errorf("trouble %v, enrolled with %v, asked for as a renewal %v", k.Trouble(), h.Enrolled(), h.Renewed())
	}
}

func testApproval(t *testing.T, h *home) {
	h.token = ""
	k := h.keeper(t)
	again := h.settle(t, k)
	key := h.state(t).Request.Fingerprint
	wantTrouble(t, k, "", "approve rome", key)
	if wait := again.Sub(h.clock.Now()); wait < 30*time.Second || wait > time.Minute {
		t.Errorf("asks again after %s, the broker wished 30s", wait)
	}
	if h.settle(t, k); len(h.Enrolled()) != 1 {
		t.Error("asked again before the time")
	}
	h.Edit(func(r *identitytest.Registry) { r.Approved = true })
	h.until(t, k, func() bool { return h.state(t).Certificate != nil })
	h.wantIdentity(t)
	if want := []string{key, key}; !slices.Equal(h.Enrolled(), want) {
		t.Errorf("asked with keys %v, want %v", h.Enrolled(), want)
	}
	if k.Trouble() != nil {
		t.Errorf("trouble in the end: %v", k.Trouble())
	}
}

func testExpiredToken(t *testing.T, h *home) {
	h.token = "token.too.old"
	k := h.keeper(t)
	h.settle(t, k)
	wantTrouble(t, k, fault.TokenExpired, "broker enrol rome", "--enrolment-token")
	h.token = identitytest.Token
	h.until(t, h.keeper(t), func() bool { return h.state(t).Certificate != nil })
	h.wantIdentity(t)
}

func testUsedToken(t *testing.T, h *home) {
	h.Tokens[identitytest.Token] = "sha256:another"
	k := h.keeper(t)
	h.settle(t, k)
	wantTrouble(t, k, fault.TokenUsed, "another key", "broker enrol rome")
}

func testDenied(t *testing.T, h *home) {
	h.Failure = fault.New(fault.ClusterDenied, "an administrator shut rome out")
	k := h.keeper(t)
	// The request for the trust domain is refused first, then the enrolment.
	for range 12 {
		h.clock.SetTime(h.settle(t, k))
	}
	wantTrouble(t, k, fault.ClusterDenied, "shut rome out")
	if wait := h.settle(t, k).Sub(h.clock.Now()); wait < longestPause {
		t.Errorf("after many refusals it asks again within %s", wait)
	}
	h.Edit(func(r *identitytest.Registry) { r.Failure = nil })
	h.until(t, k, func() bool { return h.state(t).Certificate != nil })
	h.wantIdentity(t)
}

func testBrokerAway(t *testing.T, h *home) {
	k := h.keeper(t, func(o *Options) {
		away, err := httptransport.NewEnroller(httptransport.EnrollerOptions{
			URL: "https://127.0.0.1:1", CAHashes: []string{h.CAHash(t)}, Now: time.Now,
		})
		runtest.Check(t, err)
		o.Enroller = away
	})
	h.settle(t, k)
	wantTrouble(t, k, "", "https://127.0.0.1:1", "trust domain")
	if !errors.Is(k.Trouble(), transport.ErrUnreachable) {
		t.Errorf("trouble %v", k.Trouble())
	}
	k.options.Enroller = h.Enroller(t, h.CAHash(t))
	h.until(t, k, func() bool { return k.Trouble() == nil })
	h.wantIdentity(t)
}

func testWrongCA(t *testing.T, h *home) {
	other := "sha256:" + strings.Repeat("00", 32)
	k := h.keeper(t, func(o *Options) { o.Enroller = h.Enroller(t, other) })
	h.settle(t, k)
	wantTrouble(t, k, "", other, h.CAHash(t), "--enrolment-ca-hash")
	if len(h.Enrolled()) != 0 {
		t.Error("the request was sent all the same")
	}
}

func testTrustDomain(t *testing.T, h *home) {
	k := h.enrolled(t)
	h.Edit(func(r *identitytest.Registry) { r.Domain = "moved.example" })
	h.clock.SetTime(RenewalTime(h.state(t).Certificate))
	h.until(t, k, func() bool { return len(h.Renewed()) == 1 })
	h.settle(t, k)
	if got := h.wantIdentity(t).trustDomain(); got != "moved.example" {
		t.Errorf("trust domain %q", got)
	}
}

func testUselessAnswer(t *testing.T, h *home) {
	k := h.enrolled(t)
	before := h.wantIdentity(t)
	good := h.ServersCA
	h.Edit(func(r *identitytest.Registry) { r.ServersCA = []byte("no root") })
	h.clock.SetTime(RenewalTime(before))
	h.settle(t, k)
	wantTrouble(t, k, "", "ca.crt", "no CA certificate")
	if got := h.state(t).Certificate; !got.sameAs(before) {
		t.Error("the certificate in use was replaced")
	}
	h.Edit(func(r *identitytest.Registry) { r.ServersCA = good })
	h.until(t, k, func() bool { return k.Trouble() == nil })
	h.wantIdentity(t)
}

func testStuck(t *testing.T, h *home) {
	k := h.keeper(t, func(o *Options) { o.Enroller = nil })
	h.settle(t, k)
	wantTrouble(t, k, "", "broker enrol rome", "--enrolment-url", "--enrolment-ca-hash", "--enrolment-token")
}

func testHalfWritten(t *testing.T, h *home) {
	h.overwrite(t, func(data map[string][]byte) {
		data[pki.CertFile] = []byte("half")
		data[pendingRequestEntry] = []byte("half")
		data["notes"] = []byte("of somebody else")
	})
	k := h.keeper(t)
	h.settle(t, k)
	h.wantIdentity(t)
	if got := string(h.data(t)["notes"]); got != "of somebody else" {
		t.Errorf("what somebody else keeps there is %q", got)
	}
}

func testRestore(t *testing.T, h *home) {
	k := h.enrolled(t)
	before := h.wantIdentity(t)
	for name, lose := range map[string]func(){
		"an entry": func() {
			h.overwrite(t, func(data map[string][]byte) { delete(data, pki.AgentsCAFile) })
		},
		"the secret": func() {
			runtest.Check(t, h.clientset.CoreV1().Secrets(h.secret.Namespace).Delete(t.Context(), h.secret.Name, metav1.DeleteOptions{}))
		},
	} {
		lose()
		h.settle(t, k)
		if got := h.wantIdentity(t); !got.sameAs(before) {
			t.Errorf("without %s: another certificate", name)
		}
	}
	if h.Issued() != 1 {
		t.Errorf("%d certificates were issued", h.Issued())
	}
}

func testEdited(t *testing.T, h *home) {
	k := h.enrolled(t)
	by := certified(t, "rome", h.clock.Now(), time.Hour)
	h.overwrite(t, func(data map[string][]byte) { maps.Copy(data, State{Certificate: by}.secretData()) })
	h.settle(t, k)
	if got := h.wantIdentity(t); !got.sameAs(by) {
		t.Error("the edited certificate is not in use")
	}
}

func testRenewal(t *testing.T, h *home) {
	k := h.enrolled(t)
	keys := map[string]bool{h.Enrolled()[0]: true}
	for i := range 5 {
		before := h.wantIdentity(t)
		h.clock.SetTime(RenewalTime(before).Add(-time.Second))
		h.settle(t, k)
		if len(h.Renewed()) != i {
			t.Fatalf("renewed before %s", RenewalTime(before))
		}
		h.clock.SetTime(RenewalTime(before))
		h.settle(t, k)
		if after := h.wantIdentity(t); after.sameAs(before) || len(h.Renewed()) != i+1 {
			t.Fatalf("%d renewals", len(h.Renewed()))
		}
		keys[h.Renewed()[i]] = true
	}
	if len(keys) != 6 {
		t.Errorf("%d keys for 6 certificates", len(keys))
	}
	if len(h.Enrolled()) != 1 {
		t.Error("a renewal enrolled again")
	}
}

func testFailingRenewal(t *testing.T, h *home) {
	k := h.enrolled(t)
	before := h.wantIdentity(t)
	h.Edit(func(r *identitytest.Registry) { r.Failure = fault.New(fault.IssuanceDenied, "an approver said no") })
	h.clock.SetTime(RenewalTime(before))
	h.settle(t, k)
	wantTrouble(t, k, fault.IssuanceDenied, "approver said no", before.Leaf.NotAfter.UTC().Format(time.RFC3339))
	key := h.state(t).Request.Fingerprint
	h.Edit(func(r *identitytest.Registry) { r.Failure = nil })
	h.until(t, k, func() bool { return k.Trouble() == nil })
	h.wantIdentity(t)
	if diff := cmp.Diff([]string{key}, h.Renewed()); diff != "" {
		t.Errorf("keys renewed with (-want +got):\n%s", diff)
	}
}

func testOutdated(t *testing.T, h *home) {
	k := h.enrolled(t)
	before := h.wantIdentity(t)
	h.Edit(func(r *identitytest.Registry) {
		r.ServersCA = slices.Concat(r.ServersCA, identitytest.NewAuthority(t, h.clock).CertPEM())
	})
	h.SaveServer(t)
	h.until(t, k, func() bool { return len(h.Renewed()) == 1 })
	after := h.wantIdentity(t)
	if after.trustDigest == before.trustDigest {
		t.Error("the roots are the old ones")
	}
	if age := h.clock.Since(before.Leaf.NotBefore); age < trustPause || age > 2*trustPause {
		t.Errorf("renewed after %s", age)
	}
	h.clock.Step(trustPause)
	if h.settle(t, k); len(h.Renewed()) != 1 {
		t.Error("renewed again though the roots are the broker's")
	}
}

func testUntrusted(t *testing.T, h *home) {
	k := h.enrolled(t)
	// The agents' CA changes before any agent could renew.
	h.Edit(func(r *identitytest.Registry) {
		r.Agents = identitytest.NewAuthority(t, h.clock)
		r.Tokens["second.token"] = ""
	})
	h.SaveServer(t)
	k.options.Token = "second.token"
	h.until(t, k, func() bool { return len(h.Enrolled()) == 2 })
	h.settle(t, k)
	if got := h.wantIdentity(t); !slices.Equal(got.AgentsCA, h.Agents.CertPEM()) {
		t.Error("the agents' CA is the old one")
	}
	h.clock.Step(2 * pingInterval)
	if h.settle(t, k); k.Trouble() != nil || len(h.Enrolled()) != 2 {
		t.Errorf("trouble %v, enrolled %d times", k.Trouble(), len(h.Enrolled()))
	}
}

func testExpired(t *testing.T, h *home) {
	h.settle(t, h.keeper(t))
	before := h.wantIdentity(t)
	h.clock.SetTime(before.Leaf.NotAfter.Add(time.Hour))

	k := h.keeper(t, func(o *Options) { o.Enroller = nil })
	h.settle(t, k)
	wantTrouble(t, k, "", "expired on", "broker enrol rome")

	k = h.keeper(t, func(o *Options) { o.Token = "token.too.old" })
	h.settle(t, k)
	wantTrouble(t, k, fault.TokenExpired, "broker enrol rome")

	h.Edit(func(r *identitytest.Registry) { r.Tokens["second.token"] = "" })
	k = h.keeper(t, func(o *Options) { o.Token = "second.token" })
	h.settle(t, k)
	if got := h.wantIdentity(t); got.hasExpired(h.clock.Now()) {
		t.Error("still the one that expired")
	}
}

func testClockAhead(t *testing.T, h *home) {
	k := h.enrolled(t)
	first := h.wantIdentity(t)
	life := first.Leaf.NotAfter.Sub(first.Leaf.NotBefore)
	// The issuer's clock stays three quarters of a lifetime behind.
	behind := life * 3 / 4
	h.Edit(func(r *identitytest.Registry) { r.Now = func() time.Time { return h.clock.Now().Add(-behind) } })
	h.clock.SetTime(RenewalTime(first))
	h.settle(t, k)
	start := h.clock.Now()
	for h.clock.Since(start) < 2*life {
		h.clock.SetTime(h.settle(t, k))
	}
	if n := len(h.Renewed()); n == 0 || n > 10 {
		t.Errorf("%d renewals in two lives", n)
	}
}

// Two processes enrol and renew concurrently, with real clocks and watches.
func testReplicas(t *testing.T, h *home) {
	h.Site = identitytest.New(t, clock.RealClock{})
	h.Edit(func(r *identitytest.Registry) { r.Life = 3 * time.Second })
	ctx, cancel := context.WithCancel(t.Context())
	var replicas sync.WaitGroup
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		k := h.keeper(t, func(o *Options) { o.Clock, o.Dir = clock.RealClock{}, dir })
		replicas.Go(func() {
			if _, err := k.Acquire(ctx); err != nil {
				t.Error(err)
				return
			}
			files, err := pki.OpenFiles(dir, time.Now)
			if err != nil {
				t.Error(err)
				return
			}
			tr, err := httptransport.New(httptransport.Options{URLs: []string{h.URL}, Files: files})
			if err != nil {
				t.Error(err)
				return
			}
			defer tr.Close() //nolint:errcheck // Close never fails
			k.RenewWith(tr, elected())
			_ = k.Start(ctx) // returns when ctx ends
		})
	}
	runtest.Await(t, "three renewals", func() bool { return len(h.Renewed()) >= 3 })
	h.Edit(func(r *identitytest.Registry) { r.Life = time.Hour })
	runtest.Await(t, "both replicas having the certificate of the secret", func() bool {
		c := h.state(t).Certificate
		if c == nil || c.Leaf.NotAfter.Sub(c.Leaf.NotBefore) != time.Hour {
			return false
		}
		for _, dir := range dirs {
			files, err := pki.OpenFiles(dir, time.Now)
			if err != nil {
				return false
			}
			if credentials, err := files.Current(); err != nil || !credentials.Certificate.Leaf.Equal(c.Leaf) {
				return false
			}
		}
		return true
	})
	cancel()
	replicas.Wait()
	keys := slices.Compact(slices.Sorted(slices.Values(h.Enrolled())))
	if len(keys) != 1 {
		t.Errorf("enrolled with %d keys", len(keys))
	}
}
