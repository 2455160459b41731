// Package provisioningrequest serves ProvisioningRequests of class reserve.broker.fluidos.eu: it creates a
// ResourceRequest for each, and shows the progress in the conditions that Kueue and others read.
package provisioningrequest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/owned"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/served"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// +kubebuilder:rbac:groups=autoscaling.x-k8s.io,resources=provisioningrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling.x-k8s.io,resources=provisioningrequests/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=get
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller. All but CheckInterval are required.
type Options struct {
	// Reader reads from the API server, for reads that a stale cache would make wrong: PodTemplates, and whether a
	// ResourceRequest exists.
	Reader   client.Reader
	Recorder events.EventRecorder
	Clock    clock.Clock
	// CheckInterval is the pause between two checks whether the CRD of ProvisioningRequest exists; 30 s by default.
	CheckInterval time.Duration
}

// Reconciler serves ProvisioningRequests.
type Reconciler struct {
	client  client.Client
	options Options
}

// New returns a Reconciler.
func New(c client.Client, options Options) *Reconciler {
	return &Reconciler{client: c, options: options}
}

// SetupWhenServed registers the controller once the CRD of ProvisioningRequest exists. Kueue and cluster-autoscaler
// install it.
func (r *Reconciler) SetupWhenServed(mgr ctrl.Manager) error {
	kind := autoscaling.GroupVersion.WithKind("ProvisioningRequest")
	return served.Setup(mgr, kind, r.options.CheckInterval, r.options.Clock, r.setupWithManager)
}

func (r *Reconciler) setupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("provisioningrequest").
		For(&autoscaling.ProvisioningRequest{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			pr, ok := o.(*autoscaling.ProvisioningRequest)
			return ok && isServed(pr)
		}))).
		Owns(&agentv1alpha1.ResourceRequest{}).
		Complete(r)
}

const (
	// templateRetry is the pause before a missing PodTemplate is looked up again. Templates are not watched, because
	// the agent may not list them.
	templateRetry = 10 * time.Second
	// templateTimeout is how long after its creation a ProvisioningRequest may wait for a PodTemplate. Kueue creates a
	// PodTemplate once. If it took one that Kubernetes was about to delete with an earlier ProvisioningRequest of the same
	// name, only another attempt brings a new one.
	templateTimeout = 2 * time.Minute
	// afterStale is the pause before the next reconcile if the cached ProvisioningRequest was outdated.
	afterStale = 100 * time.Millisecond
	// never means that only an event triggers the next reconcile.
	never time.Duration = 0
)

func isServed(pr *autoscaling.ProvisioningRequest) bool {
	return pr.Spec.ProvisioningClassName == autoscaling.ClassName
}

// Reconcile creates the ResourceRequest of a ProvisioningRequest, shows its progress in the conditions, and releases it
// when the ProvisioningRequest has ended.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	pr := &autoscaling.ProvisioningRequest{}
	if err := r.client.Get(ctx, req.NamespacedName, pr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isServed(pr) || pr.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // Kubernetes deletes the ResourceRequest of a deleted ProvisioningRequest
	}
	return patch.Requeue(r.takeStep(ctx, pr))
}

func (r *Reconciler) takeStep(ctx context.Context, pr *autoscaling.ProvisioningRequest) (time.Duration, error) {
	server := r.options.Reader
	if isOver(pr) {
		server = r.client // a request that the cache does not have yet triggers a reconcile when it does
	}
	rr, err := owned.FindRequest(ctx, r.client, server, client.ObjectKey{Namespace: pr.Namespace, Name: RequestName(pr)})
	if err != nil {
		return never, err
	}
	before := pr.DeepCopy()
	again, status := never, editor{pr: pr, now: r.options.Clock.Now()}
	switch {
	case isOver(pr):
		return never, r.releaseRequest(ctx, pr, rr)
	case rr == nil && isAccepted(pr):
		// The ResourceRequest was deleted. It is not created again, because one ProvisioningRequest must not get capacity
		// twice.
		status.setEnded(outcome{reason: agentv1alpha1.ReasonDeleted, message: fmt.Sprintf("resource request %q was deleted", RequestName(pr))})
	case rr == nil:
		if rr, again, err = r.createRequest(ctx, pr, status); err != nil {
			return never, err
		}
	}
	if rr != nil {
		status.showRequest(rr)
	}
	if err := r.saveStatus(ctx, pr, before); err != nil || !isOver(pr) {
		return again, err
	}
	return never, r.releaseRequest(ctx, pr, rr)
}

// RequestName returns the name of the ResourceRequest of a ProvisioningRequest. It contains a hash of the UID, so that
// a ProvisioningRequest that is created again under its name gets a ResourceRequest, and thus a node, of its own. It
// is short enough for the value of a node label.
func RequestName(pr *autoscaling.ProvisioningRequest) string {
	const longest, hashed = 63, 8
	sum := sha256.Sum256([]byte(pr.UID))
	name := strings.TrimRight(pr.Name[:min(len(pr.Name), longest-hashed-1)], ".") // no part of a name may begin with a hyphen
	return name + "-" + hex.EncodeToString(sum[:])[:hashed]
}

// createRequest creates the ResourceRequest of a ProvisioningRequest. If it cannot create one, it records the reason in
// the status, and returns nil and the time until the next attempt.
func (r *Reconciler) createRequest(ctx context.Context, pr *autoscaling.ProvisioningRequest, status editor) (*agentv1alpha1.ResourceRequest, time.Duration, error) {
	pods, err := r.readPods(ctx, pr)
	if missing, ok := errors.AsType[*missingTemplate](err); ok {
		left := pr.CreationTimestamp.Add(templateTimeout).Sub(status.now)
		if left <= 0 {
			status.setRefused(agentv1alpha1.ReasonPodTemplateMissing, fmt.Sprintf("%s after %s", missing, templateTimeout))
			return nil, never, nil
		}
		status.setAwaitingTemplate(missing)
		return nil, min(left, templateRetry), nil
	}
	if err != nil {
		return nil, never, err
	}
	// The cache may lag behind. An outdated ProvisioningRequest may already have ended, so that nothing must be created
	// for it.
	current := &autoscaling.ProvisioningRequest{}
	if err := r.options.Reader.Get(ctx, client.ObjectKeyFromObject(pr), current); err != nil {
		return nil, never, client.IgnoreNotFound(err)
	}
	if current.ResourceVersion != pr.ResourceVersion {
		return nil, afterStale, nil
	}
	spec, err := autoscaling.RequestSpec(pods, pr.Spec.Parameters)
	if err != nil {
		status.setRefused(agentv1alpha1.ReasonInvalid, err.Error())
		return nil, never, nil
	}
	rr := &agentv1alpha1.ResourceRequest{ObjectMeta: owned.MetadataOf(pr, autoscaling.GroupVersion.WithKind("ProvisioningRequest"), RequestName(pr)), Spec: spec}
	switch err := r.client.Create(ctx, rr); {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		status.setRefused(agentv1alpha1.ReasonInvalid, "the ResourceRequest, whose fields have the names of parameters, was refused: "+err.Error())
		return nil, never, nil
	case err != nil:
		// If the error is AlreadyExists, the next reconcile finds the existing ResourceRequest.
		return nil, never, fmt.Errorf("create resource request %q: %w", client.ObjectKeyFromObject(rr), err)
	}
	failpoint.Hit(failpoint.ProvisioningRequested)
	return rr, never, nil
}

// missingTemplate is the error about a PodTemplate that does not exist.
type missingTemplate struct{ namespace, name string }

func (e *missingTemplate) Error() string {
	return fmt.Sprintf("pod template %q does not exist in namespace %q", e.name, e.namespace)
}

func (r *Reconciler) readPods(ctx context.Context, pr *autoscaling.ProvisioningRequest) ([]autoscaling.Pods, error) {
	var out []autoscaling.Pods
	for _, set := range pr.Spec.PodSets {
		template := &corev1.PodTemplate{}
		err := r.options.Reader.Get(ctx, client.ObjectKey{Namespace: pr.Namespace, Name: set.PodTemplateRef.Name}, template)
		if apierrors.IsNotFound(err) {
			return nil, &missingTemplate{pr.Namespace, set.PodTemplateRef.Name}
		}
		if err != nil {
			return nil, fmt.Errorf("read pod template %q of namespace %q: %w", set.PodTemplateRef.Name, pr.Namespace, err)
		}
		out = append(out, autoscaling.Pods{Template: template.Name, Spec: template.Template.Spec, Count: set.Count})
	}
	return out, nil
}

// releaseRequest releases what the ResourceRequest of an ended ProvisioningRequest holds or still asks for. A request
// that was preempted may wait in the queue, and nobody would use what it gets later.
func (r *Reconciler) releaseRequest(ctx context.Context, pr *autoscaling.ProvisioningRequest, rr *agentv1alpha1.ResourceRequest) error {
	if rr == nil || !metav1.IsControlledBy(rr, pr) || rr.Spec.Release || rr.DeletionTimestamp != nil || isRequestOver(rr) {
		return nil
	}
	before := rr.DeepCopy()
	rr.Spec.Release = true
	if err := r.client.Patch(ctx, rr, patch.IfUnchanged(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release resource request %q: %w", client.ObjectKeyFromObject(rr), err)
	}
	return nil
}

func (r *Reconciler) saveStatus(ctx context.Context, pr, before *autoscaling.ProvisioningRequest) error {
	if written, err := patch.Status(ctx, r.client, pr, before); !written {
		return err
	}
	failpoint.Hit(failpoint.ProvisioningShown)
	for _, kind := range []string{autoscaling.CapacityRevoked, autoscaling.BookingExpired, autoscaling.Failed, autoscaling.Provisioned, autoscaling.Accepted} {
		c := message.ChangedCondition(pr.Status.Conditions, before.Status.Conditions, kind)
		if c == nil {
			continue
		}
		eventType := corev1.EventTypeNormal
		if isOver(pr) || c.Reason == agentv1alpha1.ReasonPodTemplateMissing {
			eventType = corev1.EventTypeWarning
		}
		r.options.Recorder.Eventf(pr, nil, eventType, c.Reason, "Provision", "%s", message.Clip(c.Message, message.MaxNote))
		if isOver(pr) {
			break // the conditions of an end have one cause
		}
	}
	return nil
}
