package console

import (
	"context"
	"crypto/tls"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view/viewtest"
)

// TestUsersSeeWhatTheAPIServerLetsThemList asks a console at a real API server for every page as every user.
func TestUsersSeeWhatTheAPIServerLetsThemList(t *testing.T) {
	w := newWorld(t)
	admin := w.user("anna", w.clusterRole("*", "*", "*"))
	clustersOnly := w.user("lender", w.clusterRole(brokerv1alpha1.GroupVersion.Group, "clusteradvertisements", "list"))
	listOnly := w.user("lister", w.clusterRole(brokerv1alpha1.GroupVersion.Group, "reservations", "list"))
	ofTeam := w.user("tenant", func(account string) {
		w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: "team"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{brokerv1alpha1.GroupVersion.Group}, Resources: []string{"reservations"}, Verbs: []string{"get", "list"}},
		}})
		w.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: "team"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
		})
	})
	nobody := w.user("nobody", func(string) {})

	const (
		served, waits, paris = "/objects/reservation/default/served", "/objects/reservation/team/waits", "/objects/clusteradvertisement/default/paris"
	)
	tests := []struct {
		path, says string
		allowed    []string
	}{
		{"/reservations", ">served</a>", []string{admin, listOnly}},
		{"/reservations", ">waits</a>", []string{admin, listOnly, ofTeam}},
		{"/queue", ">waits</a>", []string{admin, listOnly, ofTeam}},
		{"/requesters", "rome", []string{admin, listOnly}},
		{"/clusters", ">paris</a>", []string{admin, clustersOnly}},
		{"/", "oslo", []string{admin, clustersOnly}},
		{"/", "turin", []string{admin}},
		{"/configuration", "turin", []string{admin}},
		{served, "rome", []string{admin, listOnly}},
		{waits, "milan", []string{admin, listOnly, ofTeam}},
		{paris, "10 cores", []string{admin, clustersOnly}},
		{served, "requesterID: rome", []string{admin}},         // the manifest needs the verb get
		{waits, "requesterID: milan", []string{admin, ofTeam}}, // the tenant has the verb get
		{served, "a note about it", []string{admin}},           // an event
	}
	for _, test := range tests {
		for name, token := range map[string]string{"anna": admin, "lender": clustersOnly, "lister": listOnly, "tenant": ofTeam, "nobody": nobody} {
			want := false
			for _, allowed := range test.allowed {
				want = want || allowed == token
			}
			_, body := w.get(test.path, token)
			if got := strings.Contains(body, test.says); got != want {
				t.Errorf("%s shows %q to user %s: %v, want %v", test.path, test.says, name, got, want)
			}
		}
	}
	if status, _ := w.get("/", "no.valid.token"); status != http.StatusUnauthorized {
		t.Errorf("an invented token gives status %d", status)
	}
	if status, body := w.get("/", nobody); status != http.StatusOK || !strings.Contains(body, "you may not list them") {
		t.Errorf("a user without rights gets status %d and is not told that objects are hidden", status)
	}

	w.streams(t, admin)
	w.showPersonally(t, admin, ofTeam, nobody)
	w.act(t, map[string]string{"anna": admin, "lender": clustersOnly, "lister": listOnly, "tenant": ofTeam, "nobody": nobody})
}

// act makes every change as every user. The API server refuses what the user may not do, and objects that the user may not
// list look like missing ones.
func (w *world) act(t *testing.T, tokens map[string]string) {
	t.Helper()
	const forbidden, hidden, done = http.StatusForbidden, http.StatusNotFound, http.StatusSeeOther
	fingerprint := url.Values{"fingerprint": {"sha256:" + strings.Repeat("9f2c", 16)}}
	steps := []struct {
		path   string
		form   url.Values
		status map[string]int
	}{
		{"/actions/release?kind=reservation&namespace=default&name=served", nil, map[string]int{"lister": forbidden, "lender": hidden, "tenant": hidden, "nobody": hidden, "anna": done}},
		{"/actions/release?kind=reservation&namespace=team&name=waits", nil, map[string]int{"lister": forbidden, "lender": hidden, "tenant": forbidden, "nobody": hidden, "anna": done}},
		{"/actions/drain?kind=clusteradvertisement&namespace=default&name=paris", nil, map[string]int{"lister": hidden, "lender": forbidden, "tenant": hidden, "nobody": hidden, "anna": done}},
		{"/actions/approve?cluster=turin", fingerprint, map[string]int{"lister": hidden, "lender": hidden, "tenant": hidden, "nobody": hidden, "anna": done}},
	}
	for _, user := range []string{"lister", "lender", "tenant", "nobody", "anna"} {
		_, missing := w.get("/actions/release?kind=reservation&namespace=default&name=missing", tokens[user])
		for _, step := range steps {
			want := step.status[user]
			if _, asked := w.get(step.path, tokens[user]); (asked == missing) != (want == hidden) {
				t.Errorf("%s: the page of %s is that of a missing object: %v", step.path, user, asked == missing)
			}
			status, body := w.post(step.path, tokens[user], step.form)
			if status != want || want == forbidden && !strings.Contains(body, "User &#34;system:serviceaccount:default:"+user+"&#34; cannot ") || want == hidden && body != missing {
				t.Errorf("POST %s as %s: status %d, want %d:\n%s", step.path, user, status, want, body)
			}
		}
		served, waits, config := &brokerv1alpha1.Reservation{}, &brokerv1alpha1.Reservation{}, &brokerv1alpha1.BrokerConfig{}
		w.check(w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "served"}, served))
		w.check(w.client.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "waits"}, waits))
		w.check(w.client.Get(t.Context(), client.ObjectKey{Name: "default"}, config))
		changed := []bool{served.Spec.Release, waits.Spec.Release, len(config.Spec.Drains) == 1, len(config.Spec.ApprovedClusters) == 1}
		for i := range changed {
			if changed[i] != (user == "anna") {
				t.Errorf("after %s has tried: %v", user, changed)
				break
			}
		}
	}
}

// showPersonally checks the console that a user starts on their own computer.
func (w *world) showPersonally(t *testing.T, admin, ofTeam, nobody string) {
	t.Helper()
	// The cluster does not serve the kinds of a member, like one with the CRDs of an older release.
	open := func(token string) (*Personal, error) {
		config := rest.AnonymousClientConfig(w.config)
		config.BearerToken = token
		return OpenPersonal(t.Context(), PersonalOptions{
			Config: config, Scheme: w.client.Scheme(), Namespace: "team", Broker: true, Member: true, Name: "Broker", Flags: "--context west", Version: "test", Now: time.Now,
		})
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	w.check(err)
	whole, err := open(admin)
	w.check(err)
	runtest.Start(t, runnable(func(ctx context.Context) error { return whole.Serve(ctx, listener) }))
	stranger := &http.Client{}
	if status, _ := w.ask(stranger, "http://"+listener.Addr().String()+"/"); status != http.StatusUnauthorized {
		t.Errorf("without the key: status %d", status)
	}
	if status, _ := w.ask(stranger, "http://"+listener.Addr().String()+"/open?key=guessed"); status != http.StatusUnauthorized {
		t.Errorf("with a guessed key: status %d", status)
	}
	jar, err := cookiejar.New(nil)
	w.check(err)
	user := &http.Client{Jar: jar}
	if status, body := w.ask(user, whole.Address(listener)); status != http.StatusOK || !strings.Contains(body, "system:serviceaccount:default:anna") || !strings.Contains(body, "oslo") || !strings.Contains(body, "lendingpolicies could not be read: the cluster does not serve this kind") || !strings.Contains(body, "<code>kubectl broker --context west status</code>") {
		t.Errorf("with the key: status %d, %s", status, body)
	}
	once := whole.AddressForOneBrowser(listener)
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} {
		another, err := cookiejar.New(nil)
		w.check(err)
		if status, _ := w.ask(&http.Client{Jar: another}, once); status != want {
			t.Errorf("with the address for one browser: status %d, want %d", status, want)
		}
	}
	if _, body := w.ask(user, "http://"+listener.Addr().String()+"/objects/reservation/team/waits"); !strings.Contains(body, "requesterID: milan") {
		t.Errorf("the manifest is not shown: %s", body)
	}

	if _, err := open(nobody); err == nil || !strings.Contains(err.Error(), "neither in all namespaces nor in team") {
		t.Errorf("a user without rights gets %v", err)
	}
	part, err := open(ofTeam)
	if err == nil || part != nil {
		t.Errorf("a tenant that may list, but not watch, gets %v", err)
	}
	w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "watch", Namespace: "team"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{brokerv1alpha1.GroupVersion.Group}, Resources: []string{"reservations"}, Verbs: []string{"watch"}},
	}})
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "watch", Namespace: "team"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "watch"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "tenant"}},
	})
	runtest.Await(t, "the right to watch", func() bool { part, err = open(ofTeam); return err == nil })
	recorder, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/reservations", nil)
	request.AddCookie(&http.Cookie{Name: part.guard.cookieName(), Value: part.guard.key})
	part.handler.ServeHTTP(recorder, request)
	if body := recorder.Body.String(); !strings.Contains(body, ">waits</a>") || strings.Contains(body, "served") || !strings.Contains(body, "outside namespace team: you may not list them") {
		t.Errorf("the tenant sees %s", body)
	}
}

// runnable adapts a function to manager.Runnable.
type runnable func(context.Context) error

func (r runnable) Start(ctx context.Context) error { return r(ctx) }

func (w *world) ask(browser *http.Client, address string) (int, string) {
	w.t.Helper()
	response, err := browser.Get(address)
	w.check(err)
	defer func() { w.check(response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	w.check(err)
	return response.StatusCode, string(body)
}

// streams checks that a browser with a stream sees an object soon after it was made.
func (w *world) streams(t *testing.T, token string) {
	t.Helper()
	response := w.open("/live/reservations", token)
	defer func() { w.check(response.Body.Close()) }()
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("the stream is %q", kind)
	}
	w.create(&brokerv1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "fresh", Namespace: "default"},
		Spec: brokerv1alpha1.ReservationSpec{RequesterID: "rome", RequestedResources: brokerv1alpha1.RequestedResources{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}},
	})
	seen := make(chan error, 1)
	go func() {
		var text strings.Builder
		buffer := make([]byte, 64<<10)
		for {
			n, err := response.Body.Read(buffer)
			text.Write(buffer[:n])
			if strings.Contains(text.String(), ">fresh</a>") {
				seen <- nil
				return
			}
			if err != nil {
				seen <- err
				return
			}
		}
	}()
	select {
	case err := <-seen:
		if err != nil {
			t.Errorf("the stream ended: %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("the stream does not show the new object")
	}
}

// world is an API server with the objects of viewtest, and a console.
type world struct {
	t       *testing.T
	client  client.Client
	config  *rest.Config
	console string
	browser *http.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	plane := controlplanetest.Start(t)
	w := &world{t: t, config: plane.RESTConfig()}
	w.installCRDs(charts.Broker())
	for _, o := range viewtest.Broker(t, time.Now()) {
		w.createWithStatus(o)
	}
	w.create(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "note", Namespace: "default"}, Type: "Normal", Reason: "Noted", Message: "a note about it",
		InvolvedObject: corev1.ObjectReference{Kind: "Reservation", Namespace: "default", Name: "served"},
	})
	w.startConsole(Options{Broker: true, Name: "Broker", Actions: true})
	return w
}

// newMemberWorld returns an API server with the kinds of a member, and a console.
func newMemberWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, config: controlplanetest.Start(t).RESTConfig()}
	w.installCRDs(charts.Agent())
	w.startConsole(Options{Member: true, Name: "rome"})
	return w
}

// installCRDs installs the CRDs of a chart, and sets the client.
func (w *world) installCRDs(chart fs.FS) {
	w.t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, brokerv1alpha1.AddToScheme, agentv1alpha1.AddToScheme} {
		w.check(add(scheme))
	}
	var err error
	w.client, err = client.New(w.config, client.Options{Scheme: scheme})
	w.check(err)
	crds, err := manifest.ReadFS(chart, "files/crds")
	w.check(err)
	w.check(manifest.Install(w.t.Context(), w.client, crds))
}

// startConsole starts a console and waits until it serves.
func (w *world) startConsole(o Options) {
	w.t.Helper()
	t := w.t
	authority := pkitest.New(t, "ca", time.Now())
	certificate := pkitest.Parse(t)(authority.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)}))
	informers, err := cache.New(w.config, cache.Options{Scheme: w.client.Scheme()})
	w.check(err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	w.check(err)
	address := listener.Addr().String()
	w.check(listener.Close())
	o.Address, o.Certificate, o.Cache, o.Config = address, fixedCertificate(certificate), informers, w.config
	o.Version, o.Now, o.Log = "test", time.Now, logr.Discard()
	server, err := New(t.Context(), o)
	w.check(err)
	runtest.Start(t, informers)
	runtest.Start(t, server)
	w.console, w.browser = "https://"+address, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}}
	t.Cleanup(w.browser.CloseIdleConnections)
	if !informers.WaitForCacheSync(t.Context()) {
		t.Fatal("the informers do not start")
	}
	runtest.Await(t, "the console to serve", func() bool {
		response, err := w.browser.Get(w.console + "/login")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil
	})
}

func fixedCertificate(certificate tls.Certificate) func() (*tls.Certificate, error) {
	return func() (*tls.Certificate, error) { return &certificate, nil }
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	w.check(w.client.Create(w.t.Context(), o))
}

func (w *world) createWithStatus(o *unstructured.Unstructured) {
	w.t.Helper()
	status, has := o.Object["status"]
	w.create(o)
	if has {
		o.Object["status"] = status
		w.check(w.client.Status().Update(w.t.Context(), o))
	}
}

// user creates a ServiceAccount with rights and returns a token of it.
func (w *world) user(name string, grant func(account string)) string {
	w.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	w.create(account)
	grant(name)
	request := &authenticationv1.TokenRequest{}
	w.check(w.client.SubResource("token").Create(w.t.Context(), account, request))
	return request.Status.Token
}

func (w *world) clusterRole(group, resource, verb string) func(account string) {
	return func(account string) {
		w.t.Helper()
		w.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}}})
		w.create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
		})
	}
}

func (w *world) open(path, token string) *http.Response {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.console+path, nil)
	w.check(err)
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := w.browser.Do(request)
	w.check(err)
	return response
}

func (w *world) post(path, token string, form url.Values) (int, string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.console+path, strings.NewReader(form.Encode()))
	w.check(err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := w.browser.Transport.RoundTrip(request) // which does not follow redirections
	w.check(err)
	defer func() { w.check(response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	w.check(err)
	return response.StatusCode, string(body)
}

func (w *world) get(path, token string) (int, string) {
	w.t.Helper()
	response := w.open(path, token)
	defer func() { w.check(response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	w.check(err)
	return response.StatusCode, string(body)
}
