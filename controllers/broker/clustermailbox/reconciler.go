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
	// servingEvery is how soon a mailbox is looked at again that no replica answers yet.
	servingEvery = time.Second
	// writeEvery is how soon an answer is written again that could not be.
	writeEvery = time.Second
	// lifetime of a mailbox. The longest request is a poll of 60 s; then whoever made the
	// mailbox has deleted it, or is no more. It covers clocks that disagree.
	lifetime = 2 * time.Minute
)

// step is what is next for a mailbox.
type step int

const (
	rest step = iota
	answer
	discard
)

// next says what to do for a mailbox, and when to look at it again if nothing happens.
func next(box *brokerv1alpha1.ClusterMailbox, taken, serving bool, now time.Time) (step, time.Duration) {
	left := box.CreationTimestamp.Add(lifetime).Sub(now)
	switch {
	case !serving:
		return rest, servingEvery
	case left <= 0:
		return discard, 0
	case taken || box.Status.Code != 0:
		return rest, left
	default:
		return answer, left
	}
}

// Reconcile takes up a mailbox, and lets go of one that is gone.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	box := &brokerv1alpha1.ClusterMailbox{}
	if err := r.client.Get(ctx, req.NamespacedName, box); err != nil {
		if end, taken := r.taken[req.NamespacedName]; taken && apierrors.IsNotFound(err) {
			end()
			delete(r.taken, req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	_, taken := r.taken[req.NamespacedName]
	todo, later := next(box, taken, r.Serving(), r.Clock.Now())
	switch todo {
	case answer:
		// It outlasts this reconciliation, and ends with the controller.
		work, end := context.WithCancel(ctx)
		r.taken[req.NamespacedName] = end
		go r.answer(work, box)
	case discard:
		if box.Status.Code == 0 {
			log.FromContext(ctx).Info("A request was left without an answer; if that goes on, compare this clock with that of the API server",
				"created", box.CreationTimestamp.Time, "lifetime", lifetime.String())
		}
		return ctrl.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, box))
	}
	return ctrl.Result{RequeueAfter: later}, nil
}

// answer writes what the REST API says. Nothing is written where the mailbox is gone, or
// has an answer of another replica.
func (r *Reconciler) answer(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) {
	status := r.ask(ctx, box)
	before := patch.IfUnchanged(box.DeepCopy())
	box.Status = status
	_ = wait.PollUntilContextCancel(ctx, writeEvery, true, func(ctx context.Context) (bool, error) {
		err := r.client.Status().Patch(ctx, box.DeepCopy(), before)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return true, nil
		}
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "An answer was not written, trying again")
		}
		return false, nil
	}) // it ends without an answer only where nobody reads one any more, or another replica is to answer
}

func (r *Reconciler) ask(ctx context.Context, box *brokerv1alpha1.ClusterMailbox) brokerv1alpha1.ClusterMailboxStatus {
	request, err := wire.OpenRequest(ctx, &box.Spec)
	if err != nil {
		return refusal(fault.Invalid, err)
	}
	said := &letter{header: http.Header{}}
	r.Exchange.Answer(said, request, r.Clusters[box.Namespace])
	status, err := wire.PackAnswer(said.code, said.header, said.body.Bytes())
	if err != nil {
		log.FromContext(ctx).Error(err, "An answer does not fit", "path", box.Spec.Path)
		return refusal(fault.Internal, err)
	}
	return status
}

// refusal is for what the REST API has no word for. It says too little to not fit.
func refusal(reason fault.Reason, err error) brokerv1alpha1.ClusterMailboxStatus {
	code := reason.HTTPStatus()
	body, _ := json.Marshal(v1.Problem{Type: "about:blank", Title: http.StatusText(code), Status: code, Detail: err.Error(), Reason: string(reason)})
	status, _ := wire.PackAnswer(code, http.Header{"Content-Type": {"application/problem+json"}}, body)
	return status
}

// letter is an answer as it is written.
type letter struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

func (l *letter) Header() http.Header { return l.header }

func (l *letter) WriteHeader(code int) {
	if l.code == 0 {
		l.code = code
	}
}

func (l *letter) Write(b []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	return l.body.Write(b)
}
