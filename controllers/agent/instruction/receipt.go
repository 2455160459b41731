package instruction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// DescribeReceipt sets the condition ReceiptValid to false if there is a problem with the broker's
// last receipt. Otherwise it removes the condition.
func DescribeReceipt(conditions *[]metav1.Condition, problem string, generation int64, now time.Time) {
	if problem == "" {
		meta.RemoveStatusCondition(conditions, agentv1alpha1.ConditionReceiptValid)
		return
	}
	message.SetCondition(conditions, agentv1alpha1.ConditionReceiptValid, metav1.ConditionFalse, agentv1alpha1.ReasonReceiptRefused,
		problem+"; the placement stays as it is", generation, now)
}

// RecordReceipt records a Warning event on an instruction when a problem with the broker's last
// receipt appears. conditions are the instruction's present conditions, and before are its previous
// ones.
func RecordReceipt(recorder events.EventRecorder, inst runtime.Object, conditions, before []metav1.Condition) {
	if c := message.ChangedCondition(conditions, before, agentv1alpha1.ConditionReceiptValid); c != nil {
		recorder.Eventf(inst, nil, corev1.EventTypeWarning, c.Reason, "CheckReceipt", "%s", message.Clip(c.Message, message.MaxNote))
	}
}
