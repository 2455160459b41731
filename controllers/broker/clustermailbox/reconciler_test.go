package clustermailbox

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func TestWhatIsNextForAMailbox(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		age      time.Duration
		code     int32
		taken    bool
		follower bool
		want     step
		later    time.Duration
	}{
		"a new one is answered":                       {age: time.Second, want: answer, later: lifetime - time.Second},
		"one of a clock that is ahead is answered":    {age: -time.Minute, want: answer, later: lifetime + time.Minute},
		"one that is worked on is left alone":         {age: time.Second, taken: true, want: rest, later: lifetime - time.Second},
		"one that is answered waits for its reader":   {age: time.Second, code: 200, want: rest, later: lifetime - time.Second},
		"a broker that does not serve waits":          {age: time.Second, follower: true, want: rest, later: servingEvery},
		"and deletes nothing":                         {age: time.Hour, follower: true, want: rest, later: servingEvery},
		"one that nobody read is deleted":             {age: lifetime, code: 200, want: discard},
		"one that nobody answered in time is deleted": {age: lifetime, want: discard},
		"also one that is worked on":                  {age: lifetime, taken: true, want: discard},
	} {
		t.Run(name, func(t *testing.T) {
			box := &brokerv1alpha1.ClusterMailbox{}
			box.CreationTimestamp, box.Status.Code = metav1.NewTime(now.Add(-tc.age)), tc.code
			got, later := next(box, tc.taken, !tc.follower, now)
			if got != tc.want || later != tc.later {
				t.Errorf("next = %d, looked at again in %s; want %d in %s", got, later, tc.want, tc.later)
			}
		})
	}
}
