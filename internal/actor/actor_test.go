package actor

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func TestNamesThatLeaveAClusterAreBounded(t *testing.T) {
	long := strings.Repeat("ü", 200)
	for name, tc := range map[string]struct{ user, want string }{
		"a user":                       {"alice@example.com", "alice@example.com"},
		"a service account":            {"system:serviceaccount:argocd:argocd-server", "system:serviceaccount:argocd:argocd-server"},
		"nobody":                       {"", ""},
		"a name with control bytes":    {"al\x00ice\n\u202e", "al?ice??"},
		"a name in a broken encoding":  {"al\xffice", "al?ice"},
		"a name that is too long":      {long, strings.Repeat("ü", 123) + "~cb26b0de"},
		"another one, the same so far": {long + "!", strings.Repeat("ü", 123) + "~2f54d590"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Clean(tc.user)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := Check(got); err != nil {
				t.Error(err)
			}
			if tc.user != tc.want && Check(tc.user) == nil {
				t.Errorf("%q was accepted as it is", tc.user)
			}
		})
	}
}

// stamped returns an object with annotations in the order of the constants, "" for none.
func stamped(generation int64, deleted *metav1.Time, values ...string) *metav1.ObjectMeta {
	o := &metav1.ObjectMeta{Generation: generation, DeletionTimestamp: deleted, Annotations: map[string]string{}}
	for i, key := range []string{
		brokerv1alpha1.RequestedByAnnotation, brokerv1alpha1.RequestedByGenerationAnnotation,
		brokerv1alpha1.DeletedByAnnotation, brokerv1alpha1.DeletedByTimeAnnotation,
	} {
		if i < len(values) && values[i] != "" {
			o.Annotations[key] = values[i]
		}
	}
	return o
}

func TestOutdatedStampsNameNoUser(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	for name, tc := range map[string]struct {
		object          *metav1.ObjectMeta
		author, deleter string
	}{
		"a new object":                              {stamped(1, nil, "alice", "1"), "alice", ""},
		"an object without a stamp":                 {stamped(1, nil), "", ""},
		"one that was edited while no webhook was":  {stamped(2, nil, "alice", "1"), "", ""},
		"one without the generation":                {stamped(1, nil, "alice"), "", ""},
		"one that is being deleted":                 {stamped(2, &at, "alice", "1", "bob", "2026-03-01T11:59:59Z"), "alice", "bob"},
		"one whose deletion was recorded long ago":  {stamped(2, &at, "alice", "1", "bob", "2026-03-01T11:58:00Z"), "alice", ""},
		"one whose deletion was refused after that": {stamped(1, nil, "alice", "1", "bob", "2026-03-01T11:59:59Z"), "alice", ""},
		"one whose deletion was not recorded":       {stamped(2, &at, "alice", "1"), "alice", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if author, deleter := Author(tc.object), Deleter(tc.object); author != tc.author || deleter != tc.deleter {
				t.Errorf("author %q and deleter %q, want %q and %q", author, deleter, tc.author, tc.deleter)
			}
		})
	}
}

func TestStampFollowsTheSpecAlone(t *testing.T) {
	before := stamped(3, nil, "alice", "3").Annotations
	for name, tc := range map[string]struct {
		written map[string]string
		before  map[string]string
		changed bool
		want    map[string]string
	}{
		"a new object":                  {nil, nil, true, stamped(0, nil, "bob", "4").Annotations},
		"an edit of the spec":           {before, before, true, stamped(0, nil, "bob", "4").Annotations},
		"an edit of the metadata":       {map[string]string{"team": "blue"}, before, false, map[string]string{"team": "blue", brokerv1alpha1.RequestedByAnnotation: "alice", brokerv1alpha1.RequestedByGenerationAnnotation: "3"}},
		"a forged name":                 {stamped(0, nil, "carol", "3").Annotations, before, false, before},
		"a forged name of a new object": {stamped(0, nil, "carol", "1", "carol", "2026-03-01T12:00:00Z").Annotations, nil, true, stamped(0, nil, "bob", "4").Annotations},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Stamp(tc.written, tc.before, "bob", 3, tc.changed)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
