package console

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// lenderSnapshot returns a member that lends to milan at a price, and to turin, from which it calls capacity back.
func lenderSnapshot(t *testing.T) *view.Snapshot {
	t.Helper()
	s := memberSnapshot(t)
	s.Member.Requests[0].Spec.Duration = &metav1.Duration{Duration: 8 * time.Hour}
	lent := func(name, consumer string, price *receipt.Price) *agentv1alpha1.ProviderInstruction {
		p := &agentv1alpha1.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1", CreationTimestamp: timeBefore(2 * time.Hour)}}
		p.Spec = agentv1alpha1.ProviderInstructionSpec{
			ReservationName: name, Placement: 1, RequesterClusterID: consumer, ExpiresAt: &metav1.Time{Time: noon.Add(6 * time.Hour)},
			Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")},
		}
		text, err := json.Marshal(&receipt.Statement{SignedAt: noon, Agreement: receipt.Agreement{
			Reservation: name, Placement: 1, Requester: consumer, Provider: "rome", State: receipt.Held,
			Resources: map[string]string{"cpu": "2", "memory": "4Gi"}, Price: price, HeldSince: noon.Add(-2 * time.Hour),
		}})
		runtest.Check(t, err)
		p.Spec.Receipt = &brokerv1alpha1.Receipt{Statement: string(text), Certificates: [][]byte{{1}}}
		p.Status.Phase, p.Status.Enforced = agentv1alpha1.InstructionActive, true
		return p
	}
	milan := lent("res-8qk2m4x9aa", "milan", &receipt.Price{Currency: "EUR", PerHour: "0.84", Rates: map[string]string{"cpu": "0.4", "memory": "0.01"}, Once: "0.1"})
	turin := lent("res-7hw3c5d2bb", "turin", nil)
	turin.Status.Recalled = &agentv1alpha1.RecalledPlacement{Since: timeBefore(time.Minute), EndsAt: metav1.Time{Time: noon.Add(9 * time.Minute)}}
	s.Member.ProviderInstructions = append(s.Member.ProviderInstructions, turin, milan)
	return s
}

// actingConsole is a console that makes changes in a fake API server.
type actingConsole struct {
	server *httptest.Server
	client client.Client
	// refusal is the API server's answer to changes; nil if it accepts them.
	refusal error
}

// serveActions serves a console that makes changes. The snapshot shows them at once.
func serveActions(t *testing.T, s *view.Snapshot) *actingConsole {
	t.Helper()
	objects := &fixedObjects{view: s}
	out := &actingConsole{}
	builder := fake.NewClientBuilder().WithScheme(editedTypes).WithRESTMapper(editedKinds)
	if s.Broker != nil {
		builder.WithObjects(s.Broker.Config.DeepCopy())
		for _, r := range s.Broker.Reservations {
			builder.WithObjects(r.DeepCopy())
		}
	} else {
		for i := range s.Member.Requests {
			builder.WithObjects(s.Member.Requests[i].DeepCopy())
		}
	}
	out.client = builder.WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if out.refusal != nil {
				return out.refusal
			}
			defer objects.put(o)
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if out.refusal != nil {
				return out.refusal
			}
			defer objects.put(o)
			return c.Patch(ctx, o, patch, options...)
		},
	}).Build()
	site := siteOf(objects)
	site.actions, site.users = true, fixedReads{out.client}
	site.used = func() map[string]quantity.Amounts {
		return map[string]quantity.Amounts{"res-8qk2m4x9aa-1": {"cpu": 500}}
	}
	out.server = httptest.NewTLSServer(newHandler(site))
	t.Cleanup(out.server.Close)
	out.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return out
}

// put shows an object that was created or changed.
func (f *fixedObjects) put(o client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := o.(*agentv1alpha1.ResourceRequest); ok {
		member := *f.view.Member
		member.Requests = slices.DeleteFunc(slices.Clone(member.Requests), func(old *agentv1alpha1.ResourceRequest) bool {
			return old.Name == r.Name && old.Namespace == r.Namespace
		})
		shown := r.DeepCopy()
		if shown.Spec.Release {
			shown.Status.Phase = "Releasing"
		}
		member.Requests = append(member.Requests, shown)
		copied := *f.view
		copied.Member = &member
		f.view = &copied
	}
	f.changes++
	f.parts = nil
}

// post sends a form as a user. It returns the status, the body and the address to which the console leads.
func (a *actingConsole) post(t *testing.T, path, user string, form url.Values) (int, string, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+user)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := a.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body), response.Header.Get("Location")
}

const (
	askRelease   = "/actions/release?kind=resourcerequest&namespace=try&name=my-request"
	askExtend    = "/actions/extend?kind=resourcerequest&namespace=try&name=my-request"
	askRecall    = "/actions/recall?kind=providerinstruction&namespace=default&name=res-8qk2m4x9aa-1"
	askKeep      = "/actions/keep?kind=providerinstruction&namespace=default&name=res-8qk2m4x9aa-1"
	askDrain     = "/actions/drain?kind=clusteradvertisement&namespace=default&name=paris"
	askUndrain   = "/actions/undrain?kind=clusteradvertisement&namespace=default&name=paris"
	askApprove   = "/actions/approve?cluster=turin"
	requestPage  = "/objects/resourcerequest/try/my-request"
	lentPage     = "/objects/providerinstruction/default/res-8qk2m4x9aa-1"
	clusterPage  = "/objects/clusteradvertisement/default/paris"
	fingerprints = "9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c9f2c"
)

func TestActionsOfAMemberChangeItsObjects(t *testing.T) {
	a := serveActions(t, lenderSnapshot(t))
	request, policy := &agentv1alpha1.ResourceRequest{}, &agentv1alpha1.LendingPolicy{}
	mine, lending := client.ObjectKey{Namespace: "try", Name: "my-request"}, client.ObjectKey{Name: "default"}
	for _, step := range []struct {
		path   string
		form   url.Values
		leads  string
		object client.Object
		key    client.ObjectKey
		want   func() bool
	}{
		{
			"/actions/reserve", url.Values{"name": {"new"}, "namespace": {"try"}, "cpu": {"3"}, "memory": {"1Gi"}, "queue": {"true"}}, "/objects/resourcerequest/try/new?done=reserve",
			request, client.ObjectKey{Namespace: "try", Name: "new"}, func() bool { return request.Spec.CPU.String() == "3" && request.Spec.QueuePolicy == "Queue" },
		},
		{askExtend, url.Values{"for": {"90m"}, "held": {"8h0m0s"}}, requestPage + "?done=extend", request, mine, func() bool { return request.Spec.Duration.Duration == 570*time.Minute }},
		{askRelease, nil, requestPage + "?done=release", request, mine, func() bool { return request.Spec.Release }},
		{askRecall, url.Values{"notice": {"30m"}, "message": {"rack 4"}}, lentPage + "?done=recall", policy, lending, func() bool {
			return len(policy.Spec.Recalls) == 1 && policy.Spec.Recalls[0].Reservation == "res-8qk2m4x9aa" && policy.Spec.Recalls[0].Notice.Duration == 30*time.Minute && policy.Spec.Recalls[0].Message == "rack 4"
		}},
		{askRecall, url.Values{"notice": {"1h"}, "all": {"true"}}, lentPage + "?done=recall", policy, lending, func() bool { return len(policy.Spec.Recalls) == 2 && policy.Spec.Recalls[1].Consumer == "milan" }},
		{askKeep, nil, lentPage + "?done=keep", policy, lending, func() bool { return len(policy.Spec.Recalls) == 0 }},
	} {
		status, body, leads := a.post(t, step.path, "admin", step.form)
		if status != http.StatusSeeOther || leads != step.leads {
			t.Errorf("%s: status %d, leads to %q, want %q:\n%s", step.path, status, leads, step.leads, body)
		}
		if err := a.client.Get(t.Context(), step.key, step.object); err != nil || !step.want() {
			t.Errorf("%s: %v, %+v", step.path, err, step.object)
		}
	}
}

func TestActionsOfABrokerChangeItsObjects(t *testing.T) {
	a := serveActions(t, brokerSnapshot(t))
	config := &brokerv1alpha1.BrokerConfig{}
	for _, step := range []struct {
		path  string
		form  url.Values
		leads string
		want  func() bool
	}{
		{askDrain, url.Values{"notice": {"1h"}, "reason": {"rack 4"}}, clusterPage + "?done=drain", func() bool {
			return len(config.Spec.Drains) == 1 && config.Spec.Drains[0].ClusterID == "paris" && config.Spec.Drains[0].Notice.Duration == time.Hour && config.Spec.Drains[0].Reason == "rack 4"
		}},
		{askDrain, url.Values{"notice": {""}, "cordon-only": {"true"}}, clusterPage + "?done=drain", func() bool { return len(config.Spec.Drains) == 1 && config.Spec.Drains[0].CordonOnly }},
		{askUndrain, nil, clusterPage + "?done=undrain", func() bool { return len(config.Spec.Drains) == 0 }},
		{askApprove, url.Values{"fingerprint": {"sha256:" + fingerprints}}, "/objects/brokerconfig/default?done=approve", func() bool {
			return len(config.Spec.ApprovedClusters) == 1 && config.Spec.ApprovedClusters[0].ClusterID == "turin"
		}},
	} {
		status, body, leads := a.post(t, step.path, "admin", step.form)
		if status != http.StatusSeeOther || leads != step.leads {
			t.Errorf("%s: status %d, leads to %q, want %q:\n%s", step.path, status, leads, step.leads, body)
		}
		if err := a.client.Get(t.Context(), client.ObjectKey{Name: "default"}, config); err != nil || !step.want() {
			t.Errorf("%s: %v, %+v", step.path, err, config.Spec)
		}
	}
}

func TestDrainCountsHiddenReservationsAsUnknown(t *testing.T) {
	broker := serveActions(t, brokerSnapshot(t))
	for user, says := range map[string]string{"admin": "On it: 1 reservation (1 of rome).", "default": "On it: 1 reservation (1 of rome) that you may list, and perhaps others."} {
		if _, body := get(t, broker.server, askDrain, user); !strings.Contains(body, says) {
			t.Errorf("user %s is not told %q:\n%s", user, says, body)
		}
	}
}

func TestFormsThatCannotBeReadAreRefused(t *testing.T) {
	a := serveActions(t, lenderSnapshot(t))
	long, body, _ := a.post(t, askRelease, "admin", url.Values{"message": {strings.Repeat("x", maxForm)}})
	broken, other := get(t, a.server, "/actions/reserve?name=%zz", "admin")
	if long != http.StatusBadRequest || broken != http.StatusBadRequest || !strings.Contains(body, "too large") || !strings.Contains(other, "invalid URL escape") {
		t.Errorf("a long form: %d %s\na broken one: %d %s", long, body, broken, other)
	}
}

// Answers of the API server are shown as they are, and what the user typed stays in the form.
func TestRefusedActionsShowTheReason(t *testing.T) {
	member, broker := serveActions(t, lenderSnapshot(t)), serveActions(t, brokerSnapshot(t))
	refused := serveActions(t, lenderSnapshot(t))
	refused.refusal = apierrors.NewForbidden(schema.GroupResource{Group: "liqo.io", Resource: "resourcerequests"}, "my-request", io.EOF)
	for name, test := range map[string]struct {
		console *actingConsole
		path    string
		form    url.Values
		status  int
		says    string
	}{
		"the API server forbids it":                   {refused, askRelease, nil, http.StatusForbidden, `resourcerequests.liqo.io &#34;my-request&#34; is forbidden: EOF`},
		"the name is taken":                           {member, "/actions/reserve", url.Values{"name": {"my-request"}, "namespace": {"try"}, "cpu": {"3"}}, http.StatusConflict, "already exists"},
		"an amount is not valid":                      {member, "/actions/reserve", url.Values{"name": {"x"}, "cpu": {"three"}}, http.StatusBadRequest, `cpu &#34;three&#34; is no amount`},
		"a duration is not valid":                     {member, askExtend, url.Values{"for": {"3"}, "held": {"8h0m0s"}}, http.StatusBadRequest, `longer by &#34;3&#34; is no time`},
		"the form is sent twice":                      {member, askExtend, url.Values{"for": {"3h"}, "held": {"5h0m0s"}}, http.StatusBadRequest, "has just been changed to 8h0m0s"},
		"a notice is negative":                        {member, askRecall, url.Values{"notice": {"-1h"}}, http.StatusBadRequest, `notice &#34;-1h&#34; is no time`},
		"the key is another one":                      {broker, askApprove, url.Values{"fingerprint": {"sha256:1111"}}, http.StatusBadRequest, "no pending request of turin has key sha256:1111"},
		"the object does not exist":                   {member, strings.Replace(askRelease, "my-request", "none", 1), nil, http.StatusNotFound, "There is no such page or object"},
		"a broker has no requests":                    {broker, "/actions/reserve", nil, http.StatusNotFound, "There is no such page or object"},
		"an action that does not exist":               {broker, "/actions/destroy", nil, http.StatusNotFound, "There is no such page or object"},
		"a cluster that does not ask is not approved": {broker, "/actions/approve?cluster=oslo", nil, http.StatusNotFound, "There is no such page or object"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, _ := test.console.post(t, test.path, "admin", test.form)
			if status != test.status || !strings.Contains(body, test.says) {
				t.Errorf("status %d, want %d and %q:\n%s", status, test.status, test.says, body)
			}
			if typed := test.form.Get("for"); typed != "" && !strings.Contains(body, `value="`+typed+`"`) {
				t.Errorf("the form no longer has %q", typed)
			}
		})
	}
}

// Without the option there is neither a link nor a page, and nobody acts on an object that they may not list.
func TestActionsAreOptionalAndNeedTheRightToList(t *testing.T) {
	off := &actingConsole{server: serve(t, &fixedObjects{view: lenderSnapshot(t)})}
	for _, path := range []string{askRelease, askRecall, "/actions/reserve"} {
		if status, _ := get(t, off.server, path, "admin"); status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, status)
		}
		if status, _, _ := off.post(t, path, "admin", nil); status != http.StatusNotFound {
			t.Errorf("POST %s: status %d", path, status)
		}
	}
	for _, path := range []string{requestPage, "/requests", "/lent", lentPage, "/quote?cpu=2&memory=4Gi", "/?done=release"} {
		if _, body := get(t, off.server, path, "admin"); strings.Contains(body, "/actions/") || strings.Contains(body, "is being given back") {
			t.Errorf("%s offers or confirms a change", path)
		}
	}

	member, broker := serveActions(t, lenderSnapshot(t)), serveActions(t, brokerSnapshot(t))
	for path, a := range map[string]*actingConsole{askRelease: member, askExtend: member, askRecall: member, askKeep: member, askDrain: broker, askUndrain: broker, askApprove: broker} {
		_, missing := get(t, a.server, "/actions/release?kind=reservation&namespace=x&name=missing", "stranger-to-all")
		if status, hidden := get(t, a.server, path, "stranger-to-all"); status != http.StatusNotFound || hidden != missing {
			t.Errorf("%s differs from a page about nothing: status %d", path, status)
		}
		if status, _, _ := a.post(t, path, "stranger-to-all", url.Values{"notice": {"1h"}, "for": {"1h"}}); status != http.StatusNotFound {
			t.Errorf("POST %s: status %d", path, status)
		}
		if status, _, _ := a.post(t, path, "stranger", nil); status != http.StatusUnauthorized {
			t.Errorf("POST %s without a valid token: status %d", path, status)
		}
	}
}

func TestFormsOfOtherSitesChangeNothing(t *testing.T) {
	a := serveActions(t, lenderSnapshot(t))
	for _, headers := range []map[string]string{{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.server.URL+askRelease, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer admin")
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		response, err := a.server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("%v: %s", headers, response.Status)
		}
	}
	request := &agentv1alpha1.ResourceRequest{}
	if err := a.client.Get(t.Context(), client.ObjectKey{Namespace: "try", Name: "my-request"}, request); err != nil || request.Spec.Release {
		t.Errorf("the request was released: %v", err)
	}
}

func TestHostileTextsInFormsAreEscaped(t *testing.T) {
	s, evil := lenderSnapshot(t), url.QueryEscape(`"><img src=x>`)
	for i := range s.Member.ProviderInstructions {
		s.Member.ProviderInstructions[i].Spec.RequesterClusterID = hostileText
		s.Member.ProviderInstructions[i].Spec.ReservationName = hostileText
		s.Member.ProviderInstructions[i].Spec.Receipt = &brokerv1alpha1.Receipt{Statement: `{"agreement":{"price":{"currency":"<img src=x>","perHour":"1"}}}`}
	}
	b := brokerSnapshot(t)
	b.Broker.Config.Status.PendingEnrolments[0].ClusterID, b.Broker.Clusters[0].Spec.ClusterID = hostileText, hostileText
	member, broker := serveActions(t, s), serveActions(t, b)
	first := b.Broker.Clusters[0]
	for path, a := range map[string]*actingConsole{
		"/lent": member, askRecall + "&message=" + evil + "&notice=" + evil: member, askKeep: member, askRelease + "&done=" + evil: member,
		"/actions/reserve?name=" + evil + "&cpu=" + evil + "&namespace=" + evil: member, "/configuration": broker, "/actions/approve?cluster=" + url.QueryEscape(hostileText) + "&fingerprint=" + evil: broker,
		"/actions/drain?kind=clusteradvertisement&namespace=" + first.Namespace + "&name=" + first.Name + "&reason=" + evil: broker,
	} {
		_, asked := get(t, a.server, path, "admin")
		_, refused, _ := a.post(t, path, "admin", nil)
		if body := asked + refused; strings.Contains(body, "<img") || strings.Contains(body, "\u202e") || strings.Contains(body, `href="javascript`) {
			t.Errorf("%s contains text as markup:\n%s", path, body)
		}
	}
}
