package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// PersonalOptions configure the console of one user.
type PersonalOptions struct {
	// Config connects to the API server with the user's credentials.
	Config *rest.Config
	// Scheme contains the types of all kinds that the console shows.
	Scheme *runtime.Scheme
	// Namespace is the namespace to show for kinds that the user may not list in all namespaces.
	Namespace string
	// Broker is true if the cluster has the kinds of a broker, Member if it has those of a member.
	Broker, Member bool
	// Name is the displayed name of the cluster. Version is the displayed version of the program.
	Name, Version string
	// Flags select the cluster in the commands that pages suggest.
	Flags string
	// Journal reads the journal of a broker; nil for a member.
	Journal Journal
	// Actions lets the user change objects.
	Actions bool
	// Now returns the current time.
	Now func() time.Time
}

// Journal reads the journal of a broker with the rights of the console's user.
type Journal interface {
	CostSource
	PlanSource
	AuditSource
	PastSource
}

// Personal is the console of one user, meant for a loopback address. It reads with the user's credentials, so it shows
// exactly what the user may read. Other users of the computer can also connect to a loopback address. The console
// therefore answers only browsers that were opened with its key.
type Personal struct {
	handler http.Handler
	guard   keyAuthenticator
}

// OpenPersonal returns a console that shows the objects of a cluster. It waits until they have been read. The console
// follows their changes until ctx ends. OpenPersonal returns an error if there is no kind that the user may list and
// watch.
func OpenPersonal(ctx context.Context, o PersonalOptions) (*Personal, error) {
	clients, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	kinds, hidden, err := readableKinds(ctx, clients, o)
	if err != nil {
		return nil, err
	}
	trouble := &watchTrouble{now: o.Now, last: map[string]watchFailure{}}
	settings := cache.Options{
		Scheme: o.Scheme, ByObject: map[client.Object]cache.ByObject{}, DefaultTransform: cache.TransformStripManagedFields(),
		ReaderFailOnMissingInformer: true, DefaultWatchErrorHandler: trouble.noteFailure,
	}
	watched := make([]view.Kind, len(kinds))
	for i, k := range kinds {
		watched[i] = k.Kind
		if settings.ByObject[k.Object], err = k.cacheLimits(); err != nil {
			return nil, err
		}
	}
	informers, err := cache.New(o.Config, settings)
	if err != nil {
		return nil, err
	}
	objects := &informedObjects{cache: informers, broker: o.Broker, member: o.Member, name: o.Name, flags: o.Flags, now: o.Now}
	objects.gaps = func() []view.Gap { return append(trouble.failureGaps(), hidden...) }
	if err := objects.watchKinds(ctx, informers, watched); err != nil {
		return nil, err
	}
	go func() { _ = informers.Start(ctx) }() // returns when ctx ends
	if !informers.WaitForCacheSync(ctx) {
		return nil, context.Cause(ctx)
	}
	p := &Personal{guard: keyAuthenticator{key: rand.Text(), pass: rand.Text(), passUsed: &atomic.Bool{}}}
	own := func(string) *rest.Config {
		config := rest.CopyConfig(o.Config)
		config.Timeout = reviewTimeout
		return config
	}
	s := &site{
		objects: objects, reviews: ownRights{key: p.guard.key, name: nameOf(ctx, clients)}, users: apiReader{own}, authenticator: p.guard,
		broker: o.Broker, member: o.Member, name: o.Name, version: o.Version, actions: o.Actions, now: o.Now, log: logr.Discard(),
	}
	if j := o.Journal; j != nil {
		s.costs, s.plans, s.audit, s.past = j, j, j, j
	}
	p.handler = newHandler(s)
	return p, nil
}

// Serve answers browsers until ctx ends.
func (p *Personal) Serve(ctx context.Context, listener net.Listener) error {
	server := newHTTPServer(p.handler)
	return serveUntilDone(ctx, server, func() error { return server.Serve(listener) })
}

// Address returns the address to open in the browser. It contains the key.
func (p *Personal) Address(listener net.Listener) string {
	return addressToOpen(listener, "key", p.guard.key)
}

// AddressForOneBrowser returns an address that lets in the first browser that opens it. Other users of the computer see
// addresses in the arguments of commands.
func (p *Personal) AddressForOneBrowser(listener net.Listener) string {
	return addressToOpen(listener, "pass", p.guard.pass)
}

func addressToOpen(listener net.Listener, parameter, secret string) string {
	address := url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/open", RawQuery: url.Values{parameter: {secret}}.Encode()}
	return address.String()
}

// readableKind is a kind that the user may list in a namespace; "" for all namespaces.
type readableKind struct {
	view.Kind
	namespace string
}

// cacheLimits returns the options that restrict the informer of the kind to its namespace, and informers of nodes to
// virtual nodes.
func (k *readableKind) cacheLimits() (only cache.ByObject, err error) {
	if k.namespace != "" {
		only.Namespaces = map[string]cache.Config{k.namespace: {}}
	}
	if _, isNode := k.Object.(*corev1.Node); isNode { // virtual nodes only
		only.Label, err = labels.Parse(agentv1alpha1.ReservationLabel)
	}
	return only, err
}

// readableKinds asks the API server which kinds the user may list and watch. hidden contains a gap for each kind that
// the user may not list and watch, or only in one namespace, or that the API server does not serve.
func readableKinds(ctx context.Context, clients kubernetes.Interface, o PersonalOptions) (kinds []readableKind, hidden []view.Gap, err error) {
	for _, k := range view.KindsOf(o.Broker, o.Member) {
		if served, err := isServed(clients, k, o.Scheme); err != nil {
			return nil, nil, err
		} else if !served { // its informer would never be ready
			hidden = append(hidden, view.Gap{Kind: view.Unread, Resource: k.Plural, Message: "the cluster does not serve this kind: its CRDs are of another release"})
			continue
		}
		all, err := mayFollow(ctx, clients, k, "")
		if err != nil {
			return nil, nil, err
		}
		if all {
			kinds = append(kinds, readableKind{Kind: k})
			continue
		}
		here := false
		if k.IsNamespaced() {
			if here, err = mayFollow(ctx, clients, k, o.Namespace); err != nil {
				return nil, nil, err
			}
		}
		gap := view.Gap{Kind: view.Hidden, Resource: k.Plural}
		if here {
			kinds, gap.Namespace = append(kinds, readableKind{k, o.Namespace}), o.Namespace
		}
		hidden = append(hidden, gap)
	}
	if len(kinds) == 0 {
		return nil, nil, fmt.Errorf("you may list and watch none of this product's objects, neither in all namespaces nor in %s: choose another one with --namespace, or ask an administrator for the right to view them", o.Namespace)
	}
	return kinds, hidden, nil
}

// isServed reports whether the API server serves a kind.
func isServed(clients kubernetes.Interface, k view.Kind, scheme *runtime.Scheme) (bool, error) {
	kind, err := apiutil.GVKForObject(k.Object, scheme)
	if err != nil {
		return false, err
	}
	published, err := clients.Discovery().ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking for the kinds of %s: %w", kind.GroupVersion(), err)
	}
	return slices.ContainsFunc(published.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Plural }), nil
}

func mayFollow(ctx context.Context, clients kubernetes.Interface, k view.Kind, namespace string) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: k.Group, Resource: k.Plural, Namespace: namespace, Verb: verb},
		}}
		review, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("asking whether you may %s %s: %w", verb, k.Plural, err)
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}

// nameOf returns the user's name according to the API server, or "you" if it does not answer.
func nameOf(ctx context.Context, clients kubernetes.Interface) string {
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "you"
	}
	return review.Status.UserInfo.Username
}

// ownRights is the reviewer of a Personal console. It allows everything, because the console has read only what its
// user may read.
type ownRights struct{ key, name string }

func (o ownRights) identify(_ context.Context, token string) (*authenticationv1.UserInfo, error) {
	if subtle.ConstantTimeCompare([]byte(token), []byte(o.key)) != 1 {
		return nil, errUnauthenticated
	}
	return &authenticationv1.UserInfo{Username: o.name}, nil
}

func (ownRights) mayList(context.Context, *authenticationv1.UserInfo, string, string, string) (bool, error) {
	return true, nil
}

// keyAuthenticator is an authenticator that lets in a browser that was opened with the key, and one that was opened with
// the pass. A cookie then contains the key.
type keyAuthenticator struct {
	key, pass string
	passUsed  *atomic.Bool
}

// takePass uses up the pass. It returns false if the text is not the pass, or if the pass was used before.
func (d keyAuthenticator) takePass(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(d.pass)) == 1 && d.passUsed.CompareAndSwap(false, true)
}

// cookieName returns a name that differs between consoles, because a browser sends a cookie to all ports of a host.
func (d keyAuthenticator) cookieName() string {
	digest := sha256.Sum256([]byte(d.key))
	return "broker-" + hex.EncodeToString(digest[:4])
}

func (d keyAuthenticator) addPages(mux *http.ServeMux, s *site) {
	mux.HandleFunc("GET /open", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.reviews.identify(r.Context(), r.FormValue("key")); err != nil && !d.takePass(r.FormValue("pass")) {
			d.refuse(w, r, s)
			return
		}
		// Secure is not possible, because the console is served over http. The cookie never leaves the computer.
		http.SetCookie(w, &http.Cookie{Name: d.cookieName(), Value: d.key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // the comment above says why Secure is not set
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
}

func (d keyAuthenticator) tokenOf(r *http.Request) string {
	cookie, err := r.Cookie(d.cookieName())
	if err != nil {
		return ""
	}
	return cookie.Value
}

func (d keyAuthenticator) refuse(w http.ResponseWriter, r *http.Request, s *site) {
	c := &content{Template: "problem", Title: "Not yours", Data: problemPage{
		"This console belongs to the user who started it.", "Open the address that kubectl broker console printed: it contains a key.",
	}}
	s.writeFrame(w, r, http.StatusUnauthorized, s.newFrame(nil, c))
}

// troubleShown is how long a failed watch is shown. Informers try again sooner, so a lasting failure stays visible.
const troubleShown = 2 * time.Minute

// watchTrouble records when the watch of each kind last failed.
type watchTrouble struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[string]watchFailure
}

type watchFailure struct {
	at  time.Time
	err error
}

// noteFailure handles errors of the informers. It ignores expired watches, after which the informer lists the objects
// again.
func (t *watchTrouble) noteFailure(_ context.Context, r *toolscache.Reflector, err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || errors.Is(err, io.EOF) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[strings.TrimPrefix(path.Ext(r.TypeDescription()), ".")] = watchFailure{t.now(), err}
}

func (t *watchTrouble) failureGaps() (gaps []view.Gap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for kind, failure := range t.last {
		if t.now().Sub(failure.at) < troubleShown {
			gaps = append(gaps, view.Gap{Kind: view.Unread, Resource: kind, Message: "what is shown may be out of date: " + failure.err.Error()})
		}
	}
	slices.SortFunc(gaps, func(a, b view.Gap) int { return strings.Compare(a.Resource, b.Resource) })
	return gaps
}
