package clustermailbox

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// servingRetry is how long the controller waits before it looks at a mailbox again while this replica does not
	// lead.
	servingRetry = time.Second
	// writeRetry is the pause before another attempt to write an answer.
	writeRetry = time.Second
	// lifetime is the age at which the broker deletes a mailbox. The longest request is a poll of 60 s. A live agent
	// deletes its mailbox after that, so the remaining time allows for a difference between clocks.
	lifetime = 2 * time.Minute
)

type step int

const (
	stepWait step = iota
	stepAnswer
	stepDiscard
)

// nextStep returns what to do with a mailbox, and when to look at the mailbox again if no event comes before. taken
// says whether this replica has started to answer the mailbox.
func nextStep(box *brokerv1alpha1.ClusterMailbox, taken, serving bool, now time.Time) (step, time.Duration) {
	left := box.CreationTimestamp.Add(lifetime).Sub(now)
	switch {
	case !serving:
		return stepWait, servingRetry
	case left <= 0:
		return stepDiscard, 0
	case taken || box.Status.Code != 0:
		return stepWait, left
	default:
		return stepAnswer, left
	}
}

// Reconcile starts to answer a new mailbox, stops the work on a deleted mailbox, and deletes mailboxes that are too
// old.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	box := &brokerv1alpha1.ClusterMailbox{}
	if err := r.client.Get(ctx, req.NamespacedName, box); err != nil {
		if end, taken := r.inProgress[req.NamespacedName]; taken && apierrors.IsNotFound(err) {
			end()
			delete(r.inProgress, req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	_, taken := r.inProgress[req.NamespacedName]
	todo, later := nextStep(box, taken, r.Serving(), r.Clock.Now())
	switch todo {
	case stepAnswer:
		// The answer may take longer than this reconciliation. It is cancelled when the controller stops.
		work, end := context.WithCancel(ctx)
		r.inProgress[req.NamespacedName] = end
		go r.writeAnswer(work, box)
	case stepDiscard:
		if box.Status.Code == 0 {
			log.FromContext(ctx).Info("request was not answered in time; if this repeats, compare this clock with the API server's",
				"created", box.CreationTimestamp.Time, "lifetime", lifetime.String())
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, box))
	}
	return ctrl.Result{RequeueAfter: later}, nil
}

// writeAnswer calls the REST API and writes its answer into the mailbox. It gives up if the mailbox is gone or another
// replica has answered.
func (r *Reconciler) writeAnswer(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) {
	status := r.callAPI(ctx, box)
	before := patch.IfUnchanged(box.DeepCopy())
	box.Status = status
	_ = wait.PollUntilContextCancel(ctx, writeRetry, true, func(ctx context.Context) (bool, error) {
		err := r.client.Status().Patch(ctx, box.DeepCopy(), before)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return true, nil
		}
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "writing an answer failed, retrying")
		}
		return false, nil
	}) // the only error is the cancelled context: the mailbox is gone, or the controller stops
}

func (r *Reconciler) callAPI(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) brokerv1alpha1.ClusterMailboxStatus {
	request, err := wire.OpenRequest(ctx, &box.Spec)
	if err != nil {
		return problemStatus(fault.Invalid, err)
	}
	recorder := &responseRecorder{header: http.Header{}}
	r.Exchange.Answer(recorder, request, r.Clusters[box.Namespace])
	status, err := wire.PackAnswer(recorder.code, recorder.header, recorder.body.Bytes())
	if err != nil {
		log.FromContext(ctx).Error(err, "answer is too long for a ClusterMailbox", "path", box.Spec.Path)
		return problemStatus(fault.Internal, err)
	}
	return status
}

// problemStatus returns an answer about an error outside the REST API. The answer is always short enough for a mailbox.
func problemStatus(reason fault.Reason, err error) brokerv1alpha1.ClusterMailboxStatus {
	code := reason.HTTPStatus()
	body, _ := json.Marshal(v1.Problem{Type: "about:blank", Title: http.StatusText(code), Status: code, Detail: err.Error(), Reason: string(reason)})
	status, _ := wire.PackAnswer(code, http.Header{"Content-Type": {"application/problem+json"}}, body)
	return status
}

// responseRecorder is an http.ResponseWriter that keeps the response in memory.
type responseRecorder struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

func (l *responseRecorder) Header() http.Header { return l.header }

func (l *responseRecorder) WriteHeader(code int) {
	if l.code == 0 {
		l.code = code
	}
}

func (l *responseRecorder) Write(b []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	return l.body.Write(b)
}
