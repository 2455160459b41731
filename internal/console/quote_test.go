package console

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// previews are the quotes of these tests, by the CPU of the request.
var previews = map[string]view.Preview{
	"2": {
		Provider: "paris", Price: view.QuotedPrice{PerHour: "0.84", Total: "6.72", Currency: "EUR", For: "8h"},
		Candidates: []view.QuotedCandidate{
			{ClusterID: "berlin", Fits: true, Price: view.QuotedPrice{PerHour: "1.14", Total: "9.12", Currency: "EUR", For: "8h", NotPriced: []string{"memory"}}},
			{ClusterID: "oslo", Reason: "Stale", Message: "last heard 12m ago"},
		},
		Others: map[string]int32{"InsufficientResource": 6},
	},
	"64": {
		Candidates: []view.QuotedCandidate{{ClusterID: "paris", Reason: "InsufficientResource", Message: "cpu: 12 of 64 are free"}},
		Others:     map[string]int32{"Stale": 1}, Advice: []string{"InsufficientResource: ask for less, or wait in the queue"},
	},
	"65":  {Waits: true, Candidates: []view.QuotedCandidate{{ClusterID: "paris", Reason: "InsufficientResource", Message: "cpu: 12 of 65 are free"}}},
	"666": {Problem: hostileText},
	"667": {Provider: strings.ReplaceAll(hostileText, " ", ""), Candidates: []view.QuotedCandidate{{ClusterID: strings.ReplaceAll(hostileText, " ", ""), Reason: "Stale", Message: hostileText}}, Advice: []string{hostileText}},
	"512": {Problem: "the broker cannot be reached: try again later"},
}

// dryRun implements reader. The API server refuses requests in namespace closed, and has no webhooks for namespace mute.
func (fixedReads) dryRun(_ context.Context, token string, rr *agentv1alpha1.ResourceRequest) ([]string, error) {
	switch {
	case rr.Namespace == "closed":
		return nil, errors.New(`you may not create ResourceRequests in namespace "closed"`)
	case rr.Namespace == "mute":
		return []string{"spec.duration: the broker ends reservations after 24h"}, nil
	}
	quote := previews[rr.Spec.CPU.String()]
	return append(quote.Warnings(), "spec.duration: as "+token+" wants"), nil
}

func TestQuoteFormIsReadAsTheFlagsOfTheCommand(t *testing.T) {
	query := quoteQuery{Namespace: "team", CPU: "500m", Memory: "4Gi", Resource: "nvidia.com/gpu=1,pods=20", For: "90m", Priority: "10", Queue: "true"}
	rr, err := query.buildRequest()
	if err != nil {
		t.Fatal(err)
	}
	gpu, pods := rr.Spec.Resources["nvidia.com/gpu"], rr.Spec.Resources["pods"]
	if rr.Spec.CPU.String() != "500m" || rr.Spec.Memory.String() != "4Gi" || gpu.String() != "1" || pods.String() != "20" ||
		rr.Spec.Duration.Duration != 90*time.Minute || rr.Spec.Priority != 10 || rr.Spec.QueuePolicy != "Queue" || rr.Namespace != "team" || rr.Name != "" {
		t.Errorf("the request is %+v", rr)
	}
	if got, want := query.arguments(), " --cpu 500m --memory 4Gi --resource nvidia.com/gpu=1,pods=20 --for 90m --priority 10 --queue -n team"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for text, wrong := range map[string]quoteQuery{
		`cpu "two" is no amount`:                {CPU: "two"},
		`other resources "nvidia.com/gpu" have`: {Resource: "nvidia.com/gpu"},
		`unknown resource "gpu"`:                {Resource: "gpu=1"},
		`duration "8" is no time`:               {CPU: "1", For: "8"},
		`priority "high" is no number`:          {CPU: "1", Priority: "high"},
	} {
		if _, err := wrong.buildRequest(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v gives %v, want %s", wrong, err, text)
		}
	}
}

// quoter is an admission webhook that answers dry runs of ResourceRequests with a quote.
type quoter struct {
	mu sync.Mutex
	// users are the users whose dry runs it got.
	users []string
	// stored is true if it got a request that was not a dry run.
	stored bool
}

func (q *quoter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.users = append(q.users, review.Request.UserInfo.Username)
	q.stored = q.stored || review.Request.DryRun == nil || !*review.Request.DryRun
	quote := previews["2"]
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Warnings: quote.Warnings()}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// TestQuotesNeedTheUsersRightToCreateRequests asks a console at a real API server, with a webhook in place of the agent's.
func TestQuotesNeedTheUsersRightToCreateRequests(t *testing.T) {
	w := newMemberWorld(t)
	hook := &quoter{}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	w.check(err)
	authority := pkitest.New(t, "webhook", time.Now())
	server := newHTTPServer(hook)
	certificate := pkitest.Parse(t)(authority.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)}))
	server.TLSConfig = serverTLS(fixedCertificate(certificate))
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	none, address := admissionregistrationv1.SideEffectClassNone, "https://"+listener.Addr().String()+"/"
	group := agentv1alpha1.GroupVersion
	w.create(&admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "quotes"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "quotes.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: authority.CertPEM()},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group.Group}, APIVersions: []string{group.Version}, Resources: []string{"resourcerequests"}},
			}},
		}},
	})
	tenant := w.user("tenant", func(account string) {
		w.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: "default"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group.Group}, Resources: []string{"resourcerequests"}, Verbs: []string{"create"}},
		}})
		w.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: "default"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account}},
		})
	})
	viewer := w.user("viewer", w.clusterRole(group.Group, "resourcerequests", "list"))

	const asked = "/quote?cpu=2&memory=4Gi&for=8h"
	var body string
	for deadline := time.Now().Add(time.Minute); !strings.Contains(body, "paris would serve it") && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		_, body = w.get(asked, tenant) // the API server learns of the webhook and of the role a moment later
	}
	if !strings.Contains(body, "paris would serve it for 0.84 EUR per hour, 6.72 EUR for 8h") || !strings.Contains(body, `<a href="/reasons/Stale">Stale</a>`) {
		t.Errorf("the tenant gets no quote:\n%s", body)
	}
	for name, test := range map[string]struct{ path, token, says string }{
		"a user who may only list": {asked, viewer, "you may not create ResourceRequests in namespace &#34;default&#34;"},
		"another namespace":        {asked + "&namespace=kube-system", tenant, "you may not create ResourceRequests in namespace &#34;kube-system&#34;"},
		"a request without memory": {"/quote?cpu=2", tenant, "set both cpu and memory"},
		"a form that is empty":     {"/quote", viewer, "Nothing is requested or held"},
	} {
		if _, body := w.get(test.path, test.token); !strings.Contains(body, test.says) || strings.Contains(body, "would serve it") {
			t.Errorf("%s: want %q in:\n%s", name, test.says, body)
		}
	}
	if status, _ := w.get(asked, "no.valid.token"); status != http.StatusUnauthorized {
		t.Errorf("an invented token gives status %d", status)
	}
	hook.mu.Lock()
	defer hook.mu.Unlock()
	for _, user := range hook.users {
		if user != "system:serviceaccount:default:tenant" || hook.stored {
			t.Errorf("the webhook got a request of %s, stored: %v", user, hook.stored)
		}
	}
	var left agentv1alpha1.ResourceRequestList
	if w.check(w.client.List(t.Context(), &left)); len(left.Items) > 0 {
		t.Errorf("quotes left %d requests behind", len(left.Items))
	}
}
