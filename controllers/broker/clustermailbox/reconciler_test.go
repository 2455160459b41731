package clustermailbox

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func TestNextStepOfAMailbox(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		age      time.Duration
		code     int32
		taken    bool
		follower bool
		want     step
		later    time.Duration
	}{
		"a new mailbox is answered":                 {age: time.Second, want: stepAnswer, later: lifetime - time.Second},
		"a mailbox from a clock ahead is answered":  {age: -time.Minute, want: stepAnswer, later: lifetime + time.Minute},
		"a mailbox in progress is left alone":       {age: time.Second, taken: true, want: stepWait, later: lifetime - time.Second},
		"an answered mailbox waits for its reader":  {age: time.Second, code: 200, want: stepWait, later: lifetime - time.Second},
		"a follower waits":                          {age: time.Second, follower: true, want: stepWait, later: servingRetry},
		"a follower deletes nothing":                {age: time.Hour, follower: true, want: stepWait, later: servingRetry},
		"an unread answer is deleted":               {age: lifetime, code: 200, want: stepDiscard},
		"an unanswered mailbox is deleted":          {age: lifetime, want: stepDiscard},
		"an expired mailbox in progress is deleted": {age: lifetime, taken: true, want: stepDiscard},
	} {
		t.Run(name, func(t *testing.T) {
			box := &brokerv1alpha1.ClusterMailbox{}
			box.CreationTimestamp, box.Status.Code = metav1.NewTime(now.Add(-tc.age)), tc.code
			got, later := nextStep(box, tc.taken, !tc.follower, now)
			if got != tc.want || later != tc.later {
				t.Errorf("next = %d, next look in %s; want %d in %s", got, later, tc.want, tc.later)
			}
		})
	}
}
