package enrolment

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	keyA   = "sha256:" + strings.Repeat("a", 64)
	keyB   = "sha256:" + strings.Repeat("b", 64)
	denied = brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"rome"}}
)

func approve(mode brokerv1alpha1.AdmissionMode, clusterID, key string) brokerv1alpha1.BrokerConfigSpec {
	return brokerv1alpha1.BrokerConfigSpec{
		Admission:        mode,
		ApprovedClusters: []brokerv1alpha1.ApprovedCluster{{ClusterID: clusterID, KeyFingerprint: key}},
	}
}

func TestDecide(t *testing.T) {
	token, text := NewToken("rome", noon)
	usedBy := func(key string) *Token {
		used := token
		used.UsedBy = key
		return &used
	}
	ofParis := token
	ofParis.ClusterID = "paris"
	_, another := NewToken("rome", noon)
	another = token.ID + another[idLength:]

	cases := map[string]struct {
		spec  brokerv1alpha1.BrokerConfigSpec
		shown string
		known *Token
		after time.Duration
		want  Outcome
		// wantReason is the reason of the refusal; empty if the application is not refused.
		wantReason fault.Reason
	}{
		"a fresh token is bound and yields a certificate": {
			shown: text, known: &token, want: Outcome{Issue: true, Bind: true},
		},
		"a token is used again by its key":                       {shown: text, known: usedBy(keyA), want: Outcome{Issue: true}},
		"a token in its last moment":                             {shown: text, known: &token, after: TokenLifetime - time.Second, want: Outcome{Issue: true, Bind: true}},
		"a used token is refused for another key":                {shown: text, known: usedBy(keyB), wantReason: fault.TokenUsed},
		"a token that expired":                                   {shown: text, known: &token, after: TokenLifetime, wantReason: fault.TokenExpired},
		"a token that expired after its key used it":             {shown: text, known: usedBy(keyA), after: TokenLifetime, wantReason: fault.TokenExpired},
		"an unknown token":                                       {shown: text, wantReason: fault.TokenInvalid},
		"a wrong secret":                                         {shown: another, known: &token, wantReason: fault.TokenInvalid},
		"a wrong secret does not reveal that the token expired":  {shown: another, known: &token, after: TokenLifetime, wantReason: fault.TokenInvalid},
		"a wrong secret does not reveal that the token was used": {shown: another, known: usedBy(keyB), wantReason: fault.TokenInvalid},
		"malformed token":                                        {shown: "x", wantReason: fault.TokenInvalid},
		"a token of another cluster":                             {shown: text, known: &ofParis, wantReason: fault.TokenInvalid},
		"a valid token of a denied cluster":                      {spec: denied, shown: text, known: &token, wantReason: fault.ClusterDenied},
		"a denied cluster without token":                         {spec: denied, wantReason: fault.ClusterDenied},
		"a denied cluster that is approved": {
			spec: brokerv1alpha1.BrokerConfigSpec{
				ApprovedClusters: approve("", "rome", keyA).ApprovedClusters, DeniedClusters: []string{"rome"},
			},
			wantReason: fault.ClusterDenied,
		},
		"without token or approval the cluster waits":     {want: Outcome{Why: "it has no token"}},
		"approved with its key":                           {spec: approve("", "rome", keyA), want: Outcome{Issue: true}},
		"approved with its key when approval is required": {spec: approve(brokerv1alpha1.AdmissionApproved, "rome", keyA), want: Outcome{Issue: true}},
		"a cluster approved with another key waits":       {spec: approve("", "rome", keyB), want: Outcome{Why: "not approved with this key"}},
		"a cluster approved without a key waits":          {spec: approve("", "rome", ""), want: Outcome{Why: "not approved with this key"}},
		"its key approved for another cluster":            {spec: approve("", "paris", keyA), want: Outcome{Why: "not approved with this key"}},
		"a token outranks the approval of another key": {
			spec: approve("", "rome", keyB), shown: text, known: &token, want: Outcome{Issue: true, Bind: true},
		},
		"if approval is required a token is bound and the cluster waits": {
			spec: approve(brokerv1alpha1.AdmissionApproved, "paris", ""), shown: text, known: &token, want: Outcome{Bind: true, Why: "only approved clusters"},
		},
		"a token of an approved cluster": {
			spec: approve(brokerv1alpha1.AdmissionApproved, "rome", ""), shown: text, known: &token, want: Outcome{Issue: true, Bind: true},
		},
		"a wrong token is refused although the key is approved": {
			spec: approve("", "rome", keyA), shown: another, known: &token, wantReason: fault.TokenInvalid,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := decideApplication(access.PolicyOf(&tc.spec), &Request{ClusterID: "rome", Fingerprint: keyA}, tc.shown, tc.known, noon.Add(tc.after))
			if reason := fault.ReasonOf(err); reason != tc.wantReason {
				t.Fatalf("got %+v, %v; want reason %q", got, err, tc.wantReason)
			}
			if err != nil && strings.Contains(err.Error(), tc.shown) && len(tc.shown) > 1 {
				t.Errorf("the token is in the error %q", err)
			}
			if !strings.Contains(got.Why, tc.want.Why) || (got.Why == "") != (tc.want.Why == "") {
				t.Errorf("why %q, want %q in it", got.Why, tc.want.Why)
			}
			got.Why, tc.want.Why = "", ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTokenYieldsCertificatesForOneKey checks that one token yields certificates for one key only,
// whatever the order of applications.
func TestTokenYieldsCertificatesForOneKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token, text := NewToken("rome", noon)
		issued := map[string]bool{}
		for range rapid.IntRange(1, 20).Draw(t, "applications") {
			r := &Request{
				ClusterID:   rapid.SampledFrom([]string{"rome", "paris"}).Draw(t, "cluster"),
				Fingerprint: fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "key")),
			}
			shown := rapid.SampledFrom([]string{text, text + "a", strings.ToUpper(text), ""}).Draw(t, "token")
			now := noon.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "minute")) * time.Minute)
			got, err := decideApplication(access.Policy{}, r, shown, &token, now)
			if err != nil || !got.Issue {
				continue
			}
			if got.Bind {
				token.UsedBy = r.Fingerprint
			}
			issued[r.ClusterID+" "+r.Fingerprint] = true
			if shown != text || now.After(token.Expires) {
				t.Errorf("issued for %+v with token %q at %s", r, shown, now)
			}
		}
		if len(issued) > 1 {
			t.Errorf("one token yielded certificates for several keys: %v", issued)
		}
	})
}

func TestPendingListIsBoundedAndFresh(t *testing.T) {
	line := func(cluster, key string, since, asked time.Duration) brokerv1alpha1.PendingEnrolment {
		return brokerv1alpha1.PendingEnrolment{
			ClusterID: cluster, KeyFingerprint: key,
			Since: metav1.NewTime(noon.Add(since)), LastAsked: metav1.NewTime(noon.Add(asked)),
		}
	}
	var full pendingList
	for i := range maxPending {
		full = append(full, line(fmt.Sprintf("c%d", i), keyA, 0, 0))
	}
	cases := map[string]struct {
		list       pendingList
		cluster    string
		key        string
		want       pendingList
		wantNew    bool
		wantNoRoom bool
	}{
		"the first one": {cluster: "rome", key: keyA, want: pendingList{line("rome", keyA, 0, 0)}, wantNew: true},
		"an entry is unchanged if the cluster asks again soon": {
			list: pendingList{line("rome", keyA, -9*time.Minute, -9*time.Minute)}, cluster: "rome", key: keyA,
			want: pendingList{line("rome", keyA, -9*time.Minute, -9*time.Minute)},
		},
		"an entry is updated if the cluster asks again later": {
			list: pendingList{line("rome", keyA, -50*time.Minute, -10*time.Minute)}, cluster: "rome", key: keyA,
			want: pendingList{line("rome", keyA, -50*time.Minute, 0)},
		},
		"another key under the same name gets its own entry": {
			list: pendingList{line("rome", keyA, -time.Minute, -time.Minute)}, cluster: "rome", key: keyB,
			want: pendingList{line("rome", keyA, -time.Minute, -time.Minute), line("rome", keyB, 0, 0)}, wantNew: true,
		},
		"a stale entry is removed": {
			list: pendingList{line("oslo", keyA, -2*time.Hour, -time.Hour)}, cluster: "rome", key: keyA,
			want: pendingList{line("rome", keyA, 0, 0)}, wantNew: true,
		},
		"a denied cluster is removed": {
			list: pendingList{line("bonn", keyA, 0, 0)}, cluster: "rome", key: keyA,
			want: pendingList{line("rome", keyA, 0, 0)}, wantNew: true,
		},
		"a full list rejects a new cluster": {list: full, cluster: "rome", key: keyA, want: full, wantNoRoom: true},
		"a full list keeps its entries":     {list: full, cluster: "c3", key: keyA, want: full},
	}
	policy := access.PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"bonn"}})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := cmp.Diff(nil, tc.list)
			got, isNew, room := addPending(dropStale(tc.list, policy, noon), tc.cluster, tc.key, noon)
			if diff := cmp.Diff(tc.want, got); diff != "" || isNew != tc.wantNew || room == tc.wantNoRoom {
				t.Errorf("new %v, room %v, list (-want +got):\n%s", isNew, room, diff)
			}
			if after := cmp.Diff(nil, tc.list); after != before {
				t.Errorf("the list that was given is changed: %s", after)
			}
		})
	}
}

func TestDropPendingRemovesEnrolledCluster(t *testing.T) {
	list := pendingList{{ClusterID: "rome", KeyFingerprint: keyA}, {ClusterID: "rome", KeyFingerprint: keyB}, {ClusterID: "paris", KeyFingerprint: keyA}}
	want := pendingList{{ClusterID: "rome", KeyFingerprint: keyB}, {ClusterID: "paris", KeyFingerprint: keyA}}
	if diff := cmp.Diff(want, dropPending(list, "rome", keyA)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
