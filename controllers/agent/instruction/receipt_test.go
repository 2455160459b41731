package instruction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// An invalid receipt only sets a condition. The event draws the operator's attention to the condition.
func TestWrongReceiptIsAnEventOnce(t *testing.T) {
	recorder, inst := events.NewFakeRecorder(8), &agentv1alpha1.ProviderInstruction{}
	for _, problem := range []string{"", "wrong amounts", "wrong amounts", "wrong times", "", "wrong amounts"} {
		before := inst.DeepCopy()
		DescribeReceipt(&inst.Status.Conditions, problem, 1, time.Unix(1000, 0))
		RecordReceipt(recorder, inst, inst.Status.Conditions, before.Status.Conditions)
	}
	close(recorder.Events)
	var got []string
	for e := range recorder.Events {
		got = append(got, e)
	}
	const event = "Warning ReceiptRefused wrong amounts; the placement stays as it is"
	if diff := cmp.Diff([]string{event, event}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
