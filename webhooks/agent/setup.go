// Package agent contains the webhooks of a member cluster. They validate ResourceRequests, adapt
// pods to their reservations, limit the pods of consumers to what was granted, and check what
// peered clusters write. The handlers read the data; the checks are functions without side
// effects.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/namespaces"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// +kubebuilder:rbac:groups="",resources=limitranges;resourcequotas,verbs=list
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=list
// +kubebuilder:rbac:groups=liqo.io,resources=quotes,verbs=get;list

// Quoter asks the broker for quotes. The webhooks only ask for quotes without a hold.
type Quoter interface {
	RequestQuote(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Quote, error)
}

// Options of the webhooks for ResourceRequests and Quotes.
type Options struct {
	// ClusterID is the ID of this cluster; it may be empty until the cluster has enrolled.
	ClusterID string
	// Broker is asked for a quote in a dry run, and for warnings when a request or a Quote is created.
	Broker Quoter
	// Previewer adds the quotes to the answers to dry runs, and limits how many quotes each user gets.
	Previewer *webhooks.Previewer
}

// Setup registers the webhooks for ResourceRequests and Quotes. They read from the API server instead of a cache,
// because they must see the newest requests and quotas. Every replica may ask the broker for a quote, because
// this changes nothing.
func Setup(mgr ctrl.Manager, o Options) error {
	reader := mgr.GetAPIReader()
	err := webhooks.Register(mgr, &agentv1alpha1.Quote{}, webhooks.Kind[*agentv1alpha1.Quote]{
		Spec: func(q *agentv1alpha1.Quote) any { return q.Spec },
		Judge: func(ctx context.Context, q *agentv1alpha1.Quote) (webhooks.Verdict, error) {
			return o.validateQuote(ctx, reader, q)
		},
	})
	if err != nil {
		return err
	}
	return webhooks.Register(mgr, &agentv1alpha1.ResourceRequest{}, webhooks.Kind[*agentv1alpha1.ResourceRequest]{
		Spec: func(rr *agentv1alpha1.ResourceRequest) any { return rr.Spec },
		Judge: func(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (webhooks.Verdict, error) {
			v, err := validateRequest(ctx, reader, o.ClusterID, rr)
			if err == nil {
				o.preview(ctx, &v, rr)
			}
			return v, err
		},
	})
}

// preview adds what the broker says about a request for which the agent would ask it: a quote in a dry run, and
// warnings about likely mistakes when the request is created.
func (o *Options) preview(ctx context.Context, v *webhooks.Verdict, rr *agentv1alpha1.ResourceRequest) {
	switch {
	case rr.Spec.Release:
		return
	case rr.Spec.Quote != "":
		return // the status of the Quote contains the decision
	case rr.Status.ReservationName != "" && !bounds.IsOver(rr):
		if webhooks.IsDryRun(ctx) {
			v.Warn("quote: none: the request has a reservation already, and its provider decides about a change when it is made")
		}
		return
	}
	ask := func(ctx context.Context) (*v1.Quote, error) {
		return o.Broker.RequestQuote(ctx, "", wire.ReservationRequest(rr, o.ClusterID))
	}
	o.Previewer.AddQuote(ctx, v, rr.Spec.QueuePolicy == brokerv1alpha1.QueuePolicyQueue, ask)
	o.Previewer.AddAdvice(ctx, v, ask)
}

func validateRequest(ctx context.Context, c client.Reader, clusterID string, rr *agentv1alpha1.ResourceRequest) (webhooks.Verdict, error) {
	b, err := bounds.Read(ctx, c, rr.Namespace)
	if err != nil {
		return webhooks.Verdict{}, err
	}
	var others agentv1alpha1.ResourceRequestList
	if b.Sums() {
		if err := c.List(ctx, &others, client.InNamespace(rr.Namespace)); err != nil {
			return webhooks.Verdict{}, fmt.Errorf("listing ResourceRequests of namespace %q: %w", rr.Namespace, err)
		}
	}
	access, err := namespaces.Divide(ctx, c, rr)
	if err != nil {
		return webhooks.Verdict{}, err
	}
	if b.Sums() {
		quotes, err := bounds.ReadQuotes(ctx, c, rr.Namespace)
		if err != nil {
			return webhooks.Verdict{}, err
		}
		others.Items = bounds.AddQuotes(others.Items, quotes, rr.Spec.Quote)
	}
	v := CheckResourceRequest(rr, clusterID, b, others.Items, access)
	err = checkQuote(ctx, c, &v, rr)
	return v, err
}

// validateQuote validates a Quote like a request for the same capacity. To a dry run it
// adds the broker's quote, and to a creation only the broker's warnings.
func (o *Options) validateQuote(ctx context.Context, c client.Reader, q *agentv1alpha1.Quote) (webhooks.Verdict, error) {
	errs, err := bounds.CheckQuote(ctx, c, q)
	if err != nil {
		return webhooks.Verdict{}, err
	}
	v := CheckResourceRequest(q.Request(), o.ClusterID, bounds.Bounds{}, nil, namespaces.Access{})
	if len(v.Errors) == 0 {
		v.Refuse(errs...)
	}
	ask := func(ctx context.Context) (*v1.Quote, error) {
		return o.Broker.RequestQuote(ctx, "", wire.ReservationRequest(q.Request(), o.ClusterID))
	}
	o.Previewer.AddQuote(ctx, &v, false, ask)
	o.Previewer.AddAdvice(ctx, &v, ask)
	return v, nil
}

// checkQuote refuses a request that differs from the Quote that it names. It warns if the Quote does not exist or has
// ended. It checks nothing from the time at which the agent asks the broker until the request has failed or was
// released: meanwhile the request does not need the Quote. After that, an edit begins a new attempt, which needs it.
func checkQuote(ctx context.Context, c client.Reader, v *webhooks.Verdict, rr *agentv1alpha1.ResourceRequest) error {
	if rr.Spec.Quote == "" || rr.Status.Asked && !bounds.IsOver(rr) {
		return nil
	}
	path, q := field.NewPath("spec", "quote"), &agentv1alpha1.Quote{}
	err := c.Get(ctx, client.ObjectKey{Namespace: rr.Namespace, Name: rr.Spec.Quote}, q)
	switch {
	case apierrors.IsNotFound(err):
		v.Warn("%s: Quote %q does not exist in namespace %q: the request waits until it does", path, rr.Spec.Quote, rr.Namespace)
	case err != nil:
		return fmt.Errorf("reading Quote %q: %w", rr.Spec.Quote, err)
	case q.IsOver() || q.DeletionTimestamp != nil:
		v.Warn("%s: Quote %q is %s, so that the request fails: create another Quote, or remove spec.quote", path, q.Name, cmp.Or(string(q.Status.Phase), "being deleted"))
	default:
		v.Refuse(bounds.CompareQuote(rr, q)...)
	}
	return nil
}

// patchObject answers a review with a patch of what change changes in the object. It refuses the
// object if change returns a refusal, and otherwise admits it with the warnings.
//
// Both sides of the patch are marshalled from T. Fields that this type does not know are on neither
// side, so the patch keeps them.
func patchObject[T any](req admission.Request, change func(*T) (changed bool, warnings []string, refusal error)) admission.Response {
	object := new(T)
	if err := json.Unmarshal(req.Object.Raw, object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	before, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	changed, warnings, refusal := change(object)
	if refusal != nil {
		return admission.Denied(refusal.Error())
	}
	if !changed {
		return admission.Allowed("").WithWarnings(warnings...)
	}
	after, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(before, after).WithWarnings(warnings...)
}
