package console

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view/viewtest"
)

var update = flag.Bool("update", false, "write the golden files")

// noon is the time at which the pages of these tests are rendered.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fixedObjects is a source whose objects change only when a test says so.
type fixedObjects struct {
	mu      sync.Mutex
	view    *view.Snapshot
	changes uint64
	parts   *parts
}

func (f *fixedObjects) snapshot(context.Context) (*shared, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.parts == nil {
		f.parts = newParts()
	}
	copied, broker := *f.view, f.view.Broker
	if broker != nil {
		copied.Broker = new(*broker)
	}
	return &shared{copied, f.parts, f.changes}, nil
}

func (f *fixedObjects) revision() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// keepFirst removes all reservations but the first.
func (f *fixedObjects) keepFirst() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view.Broker.Reservations = f.view.Broker.Reservations[:1]
	f.changes++
	f.parts = nil
}

// namedUsers is a reviewer that knows users by their tokens. "admin" may list everything. The token "stranger" is not
// valid. The user of any other token may list the objects of the namespace with that name.
type namedUsers struct{}

func (namedUsers) identify(_ context.Context, token string) (*authenticationv1.UserInfo, error) {
	if token == "stranger" {
		return nil, errUnauthenticated
	}
	return &authenticationv1.UserInfo{Username: token}, nil
}

func (namedUsers) mayList(_ context.Context, user *authenticationv1.UserInfo, _, _, namespace string) (bool, error) {
	return user.Username == "admin" || namespace != "" && namespace == user.Username, nil
}

// fixedReads is a reader with one event and one manifest. Its editor is nil unless a test sets one.
type fixedReads struct{ edits client.Client }

func (f fixedReads) editor(string) (client.Client, error) { return f.edits, nil }

func (fixedReads) events(_ context.Context, _ string, about view.Ref) ([]corev1.Event, *view.Gap) {
	return []corev1.Event{{
		InvolvedObject: corev1.ObjectReference{Kind: about.Kind, Namespace: about.Namespace, Name: about.Name},
		Reason:         "Reserved", Type: "Normal", Message: "paris holds it", LastTimestamp: timeBefore(30 * time.Minute),
	}}, nil
}

func (fixedReads) manifest(_ context.Context, _ string, of view.Ref) (string, error) {
	return "kind: " + of.Kind + "\n", nil
}

func typed[T any](t testing.TB, o *unstructured.Unstructured) T {
	t.Helper()
	var out T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// brokerSnapshot returns the objects of viewtest.Broker, with other ones appended.
func brokerSnapshot(t testing.TB) *view.Snapshot {
	t.Helper()
	s := &view.Snapshot{Context: "Broker", At: noon, Broker: &view.BrokerObjects{}}
	for _, o := range viewtest.Broker(t, noon) {
		o.SetCreationTimestamp(timeBefore(time.Hour))
		o.SetGeneration(1)
		switch o.GetKind() {
		case "ClusterAdvertisement":
			s.Broker.Clusters = append(s.Broker.Clusters, new(typed[brokerv1alpha1.ClusterAdvertisement](t, o)))
		case "Reservation":
			s.Broker.Reservations = append(s.Broker.Reservations, new(typed[brokerv1alpha1.Reservation](t, o)))
		case "BrokerConfig":
			s.Broker.Config = new(typed[brokerv1alpha1.BrokerConfig](t, o))
		}
	}
	return s
}

func memberSnapshot(t *testing.T) *view.Snapshot {
	t.Helper()
	s := &view.Snapshot{Context: "rome", At: noon, Member: &view.MemberObjects{}}
	for _, o := range viewtest.Member(t, noon) {
		o.SetCreationTimestamp(timeBefore(time.Hour))
		o.SetGeneration(1)
		switch o.GetKind() {
		case "ResourceRequest":
			s.Member.Requests = append(s.Member.Requests, new(typed[agentv1alpha1.ResourceRequest](t, o)))
		case "ReservationInstruction":
			s.Member.ConsumerInstructions = append(s.Member.ConsumerInstructions, new(typed[agentv1alpha1.ReservationInstruction](t, o)))
		case "ProviderInstruction":
			s.Member.ProviderInstructions = append(s.Member.ProviderInstructions, new(typed[agentv1alpha1.ProviderInstruction](t, o)))
		case "Advertisement":
			s.Member.Advertisements = append(s.Member.Advertisements, new(typed[agentv1alpha1.Advertisement](t, o)))
		case "Node":
			s.Member.Nodes = append(s.Member.Nodes, new(typed[corev1.Node](t, o)))
		}
	}
	return s
}

// serve returns a server for a console that shows a snapshot.
func serve(t *testing.T, objects *fixedObjects) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(newHandler(siteOf(objects)))
	t.Cleanup(server.Close)
	server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return server
}

// siteOf returns a site that shows a snapshot.
func siteOf(objects *fixedObjects) *site {
	return &site{
		objects: objects, reviews: namedUsers{}, users: fixedReads{}, broker: objects.view.Broker != nil, member: objects.view.Member != nil,
		name: objects.view.Context, version: "v1.2.3", now: func() time.Time { return noon }, log: logr.Discard(),
		authenticator: &sessions{key: func() ([]byte, error) { return bytes.Repeat([]byte{7}, 32), nil }, now: func() time.Time { return noon }},
	}
}

func get(t *testing.T, server *httptest.Server, path, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestRequestersAreShownInPages(t *testing.T) {
	s := brokerSnapshot(t)
	served := s.Broker.FindReservation(view.Ref{Namespace: "default", Name: "served"})
	for i := range rowsPerPage + 1 {
		r := served.DeepCopy()
		r.Spec.RequesterID = fmt.Sprintf("requester-%03d", i)
		s.Broker.Reservations = append(s.Broker.Reservations, r)
	}
	server := serve(t, &fixedObjects{view: s})
	for path, shows := range map[string]string{"/requesters": `requester-000 requester-099 href="/requesters?after=100"`, "/requesters?after=100": "requester-100 rome"} {
		_, body := get(t, server, path, "admin")
		for _, text := range []string{"requester-000", "requester-099", `href="/requesters?after=100"`, "requester-100", "rome"} {
			if strings.Contains(body, text) != strings.Contains(shows, text) {
				t.Errorf("%s: want %q: %v", path, text, strings.Contains(shows, text))
			}
		}
	}
}

func TestPagesSayWhatTheAdministratorHasStopped(t *testing.T) {
	s := brokerSnapshot(t)
	s.Broker.Config.Spec.Queue = &brokerv1alpha1.QueueConfig{Paused: true}
	s.Broker.Config.Spec.Drains = []brokerv1alpha1.ClusterDrain{{ClusterID: "paris", CordonOnly: true}}
	server := serve(t, &fixedObjects{view: s})
	for path, texts := range map[string][]string{
		"/": {"drained: paris (cordoned)", "queue: paused"}, "/queue": {"The queue is paused"}, "/queue?after=100": {"No more requests wait"},
	} {
		_, body := get(t, server, path, "admin")
		for _, text := range texts {
			if !strings.Contains(body, text) {
				t.Errorf("%s without %q:\n%s", path, text, body)
			}
		}
	}
}

// Objects of a newer release can have reasons that this one does not know.
func TestUnknownReasonsAreNoMissingPages(t *testing.T) {
	server := serve(t, &fixedObjects{view: brokerSnapshot(t)})
	if status, body := get(t, server, "/reasons/OfTomorrow", "admin"); status != http.StatusOK || !strings.Contains(body, "No condition or reason contains this text.") {
		t.Errorf("status %d:\n%s", status, body)
	}
}

func TestEveryPageIsAsInItsGoldenFile(t *testing.T) {
	broker, member := serve(t, &fixedObjects{view: brokerSnapshot(t)}), serve(t, &fixedObjects{view: memberSnapshot(t)})
	empty := serve(t, &fixedObjects{view: &view.Snapshot{Context: "Broker", At: noon, Broker: &view.BrokerObjects{}}})
	acting, lending := serveActions(t, brokerSnapshot(t)).server, serveActions(t, lenderSnapshot(t)).server
	tests := map[string]struct {
		server *httptest.Server
		path   string
		user   string
		status int
	}{
		"overview":           {broker, "/", "admin", 200},
		"overview-of-nobody": {broker, "/", "elsewhere", 200},
		"overview-empty":     {empty, "/", "admin", 200},
		"clusters":           {broker, "/clusters", "admin", 200},
		"cluster":            {broker, "/objects/clusteradvertisement/default/paris", "admin", 200},
		"reservations":       {broker, "/reservations", "admin", 200},
		"reservations-team":  {broker, "/reservations", "team", 200},
		"reservations-none":  {broker, "/reservations?phase=Failed", "admin", 200},
		"reservation":        {broker, "/objects/reservation/default/served", "admin", 200},
		"queue":              {broker, "/queue", "admin", 200},
		"requesters":         {broker, "/requesters", "admin", 200},
		"configuration":      {broker, "/configuration", "admin", 200},
		"costs":              {costServer(t, "milan", "rome"), "/costs", "admin", 200},
		"costs-by-day":       {costServer(t, "milan", "rome"), "/costs?by=tenant&from=2026-11-01&period=day", "admin", 200},
		"costs-denied":       {costServer(t, "milan", "rome"), "/costs?period=hour&from=%24(id)", "admin", 200},
		"costs-in-cluster":   {broker, "/costs", "admin", 200},
		"costs-none":         {costServer(t), "/costs", "admin", 200},
		"past":               {pastServer(t), "/?at=2h", "admin", 200},
		"past-reservation":   {pastServer(t), "/objects/reservation/default/served?at=2h", "admin", 200},
		"past-unknown":       {pastServer(t), "/queue?at=9y", "admin", 200},
		"past-in-cluster":    {broker, "/?at=2h", "admin", 200},
		"plan":               {planServer(t), "/plan", "admin", 200},
		"plan-drain":         {planServer(t, "served", "first", "second"), "/plan?change=drain&cluster=paris&notice=10m", "admin", 200},
		"plan-add":           {planServer(t), "/plan?change=add&cluster=turin&cpu=64&resource=nvidia.com/gpu%3D4", "admin", 200},
		"plan-demand":        {planServer(t), "/plan?change=demand&cpu=8&times=3", "admin", 200},
		"plan-refused":       {planServer(t), "/plan?change=drain&cluster=lyon", "admin", 200},
		"plan-unfinished":    {planServer(t), "/plan?change=add&cpu=64", "admin", 200},
		"plan-in-cluster":    {broker, "/plan", "admin", 200},
		"audit":              {auditServer(t, "alice, as reported by rome", 3), "/audit", "admin", 200},
		"audit-filtered":     {auditServer(t, "alice", 3), "/audit?actor=alice%3B+id&since=2h", "admin", 200},
		"audit-record":       {auditServer(t, "alice", 3), "/audit?kind=reserve&record=2", "admin", 200},
		"audit-ended":        {auditServer(t, "alice", 3), "/audit?ended=true", "admin", 200},
		"audit-refused":      {auditServer(t, "alice", 3), "/audit?since=yesterday", "admin", 200},
		"audit-in-cluster":   {broker, "/audit", "admin", 200},
		"reason":             {broker, "/reasons/InsufficientResource", "admin", 200},
		"not-found":          {broker, "/objects/reservation/default/nowhere", "admin", 404},
		"login":              {broker, "/queue", "", 401},
		"login-again":        {broker, "/queue", "stranger", 401},
		"member-overview":    {member, "/", "admin", 200},
		"member-requests":    {member, "/requests", "admin", 200},
		"member-request":     {member, "/objects/resourcerequest/try/my-request", "admin", 200},
		"quote":              {member, "/quote", "admin", 200},
		"quote-served":       {member, "/quote?cpu=2&memory=4Gi&for=8h", "admin", 200},
		"quote-nobody":       {member, "/quote?cpu=64&memory=4Gi&namespace=default", "admin", 200},
		"quote-waits":        {member, "/quote?cpu=65&memory=4Gi&queue=true", "admin", 200},
		"quote-none":         {member, "/quote?cpu=512&memory=4Gi", "admin", 200},
		"quote-denied":       {member, "/quote?cpu=2&memory=4Gi&namespace=closed", "admin", 200},
		"quote-mute":         {member, "/quote?cpu=2&memory=4Gi&namespace=mute", "admin", 200},
		"member-lent":        {member, "/lent", "admin", 200},
		"lent":               {lending, "/lent", "admin", 200},
		"act-request":        {lending, "/objects/resourcerequest/try/my-request", "admin", 200},
		"act-reserve":        {lending, "/actions/reserve?cpu=2&memory=4Gi&queue=true", "admin", 200},
		"act-release":        {lending, "/actions/release?kind=resourcerequest&namespace=try&name=my-request", "admin", 200},
		"act-recall":         {lending, "/actions/recall?kind=providerinstruction&namespace=default&name=res-8qk2m4x9aa-1", "admin", 200},
		"act-keep":           {lending, "/actions/keep?kind=providerinstruction&namespace=default&name=res-7hw3c5d2bb-1", "admin", 200},
		"act-extend":         {acting, "/actions/extend?kind=reservation&namespace=default&name=served", "admin", 200},
		"act-approve":        {acting, "/actions/approve?cluster=turin", "admin", 200},
		"act-drain":          {acting, "/actions/drain?kind=clusteradvertisement&namespace=default&name=paris", "admin", 200},
		"act-done":           {acting, "/objects/clusteradvertisement/default/paris?done=drain", "admin", 200},
		"act-configuration":  {acting, "/configuration", "admin", 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := get(t, test.server, test.path, test.user)
			if status != test.status {
				t.Errorf("%s: status %d, want %d", test.path, status, test.status)
			}
			runtest.CompareGolden(t, *update, filepath.Join("testdata", name+".html"), strings.ReplaceAll(body, assetPath, "/assets/DIGEST/"))
		})
	}
}

// An object that a user may not list looks like one that does not exist.
func TestHiddenObjectsLookLikeMissingOnes(t *testing.T) {
	server := serve(t, &fixedObjects{view: brokerSnapshot(t)})
	hiddenStatus, hidden := get(t, server, "/objects/reservation/default/served", "team")
	missingStatus, missing := get(t, server, "/objects/reservation/default/missing", "team")
	if diff := cmp.Diff(missing, hidden); hiddenStatus != missingStatus || diff != "" {
		t.Errorf("status %d and %d, hidden and missing differ:\n%s", hiddenStatus, missingStatus, diff)
	}
	// The queue is left out: the status of team's own reservation names the clusters that have no room for it.
	for _, path := range []string{"/", "/clusters", "/reservations", "/requesters", "/configuration"} {
		_, body := get(t, server, path, "team")
		for _, secret := range []string{">paris", "oslo", ">served", "turin", ">rome"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s shows %q to a user who may list only namespace team", path, secret)
			}
		}
	}
}

// hostileText is a text that a member could send.
var hostileText = `<img src=x onerror=alert(1)>"'` + "\u202e" + `{{.}}javascript:` + strings.Repeat("x", 253)

// Members choose names and messages. None of these texts may become markup, a link to another host, or change the
// direction of other text.
func TestHostileTextsAreEscapedOnEveryPage(t *testing.T) {
	evil := hostileText
	s := brokerSnapshot(t)
	for i := range s.Broker.Clusters {
		c := s.Broker.Clusters[i]
		c.Spec.ClusterID, c.Spec.EndpointURL, c.Status.Conditions[0].Message = evil, evil, evil
	}
	for i := range s.Broker.Reservations {
		r := s.Broker.Reservations[i]
		r.Spec.RequesterID, r.Status.TargetClusterID, r.Status.Message, r.Status.RequestedBy = evil, evil, evil, evil
		r.Status.Candidates = append(r.Status.Candidates, brokerv1alpha1.Candidate{ClusterID: evil, Reason: "Stale", Message: evil, Currency: evil, PricePerHour: "1"})
		r.Status.Conditions[0].Message, r.Status.Conditions[0].Reason = evil, evil
	}
	objects := siteOf(&fixedObjects{view: s})
	objects.costs, objects.plans, objects.audit = fixedCosts{[]string{evil}}, fixedPlans{[]string{evil}}, fixedAudit{evil, 3}
	server := httptest.NewTLSServer(newHandler(objects))
	t.Cleanup(server.Close)
	for _, path := range []string{"/", "/clusters", "/reservations", "/queue", "/requesters", "/costs", "/costs?from=%3Cimg%20src=x%3E&by=%22%3E%3Cimg", "/plan?change=add&cluster=%22%3E%3Cimg%20src=x%3E", "/audit", "/audit?record=2", "/audit?ended=true", "/audit?actor=%22%3E%3Cimg%20src=x%3E&record=%3Cimg%20src=x%3E", "/plan?change=drain&cluster=paris", "/plan?change=drain&cluster=%3Cimg%20src=x%3E&notice=%22%3E%3Cimg",
		"/objects/reservation/default/served", "/objects/clusteradvertisement/default/paris", "/reservations?text=" + `%3Cimg%20src=x%3E`} {
		_, body := get(t, server, path, "admin")
		if strings.Contains(body, "<img") || strings.Contains(body, "\u202e") || strings.Contains(body, `href="javascript`) {
			t.Errorf("%s contains text of a member as markup", path)
		}
	}
}

func TestHostileTextsInQuotesAreEscaped(t *testing.T) {
	member := serve(t, &fixedObjects{view: memberSnapshot(t)})
	for _, path := range []string{"/quote?cpu=666&memory=4Gi", "/quote?cpu=667&memory=4Gi", "/quote?cpu=2&memory=4Gi&namespace=%3Cimg%20src=x%3E", "/quote?cpu=%22%3E%3Cimg%20src=x%3E", "/quote?for=%3Cimg%3E&cpu=1&resource=%3Cimg%20src=x%3E=1"} {
		if _, body := get(t, member, path, "admin"); strings.Contains(body, "<img") || strings.Contains(body, "\u202e") || strings.Contains(body, `href="javascript`) {
			t.Errorf("%s contains text as markup:\n%s", path, body)
		}
	}
	if status, body := get(t, member, "/quote?cpu=2&memory=4Gi", "stranger"); status != http.StatusUnauthorized || strings.Contains(body, "paris") {
		t.Errorf("a quote for a stranger: status %d", status)
	}
	if status, _ := get(t, serve(t, &fixedObjects{view: brokerSnapshot(t)}), "/quote", "admin"); status != http.StatusNotFound {
		t.Errorf("a broker has a page of quotes: status %d", status)
	}
}

func TestResponsesCarrySecurityHeaders(t *testing.T) {
	server := serve(t, &fixedObjects{view: brokerSnapshot(t)})
	for _, path := range []string{"/", "/login", assetPath + "console.css", "/nowhere"} {
		response, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		for name, value := range securityHeaders {
			if response.Header.Get(name) != value {
				t.Errorf("%s: header %s is %q", path, name, response.Header.Get(name))
			}
		}
	}
	_, body := get(t, server, "/", "admin")
	for _, forbidden := range []string{"style=", "<style", "onclick", "<script>", "http://", "https://"} {
		if strings.Contains(body, forbidden) {
			t.Errorf("the overview contains %q", forbidden)
		}
	}
}
