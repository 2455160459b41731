package capacitybuffer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/owned"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// maxName is the longest name of a buffer, because the name of its ResourceRequest is the value of a node label.
const maxName = 63

// Reconcile takes the next step for one CapacityBuffer. It counts the pods that use the buffer at regular intervals:
// the pause between two changes is much longer.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	buffer := &autoscaling.CapacityBuffer{}
	err := r.client.Get(ctx, req.NamespacedName, buffer)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || buffer.DeletionTimestamp != nil || buffer.Spec.ProvisioningStrategy != autoscaling.Strategy {
		delete(r.measured, req.NamespacedName)
		return ctrl.Result{}, r.dropRequest(ctx, buffer)
	}
	return patch.Requeue(r.options.CountInterval, r.takeStep(ctx, buffer))
}

// dropRequest serves a change of the strategy. Kubernetes itself deletes the request of a deleted buffer.
func (r *Reconciler) dropRequest(ctx context.Context, buffer *autoscaling.CapacityBuffer) error {
	rr := &agentv1alpha1.ResourceRequest{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(buffer), rr)
	if err != nil || !metav1.IsControlledBy(rr, buffer) {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(r.client.Delete(ctx, rr, client.Preconditions{UID: &rr.UID}))
}

// scene holds everything that one reconcile has read about a buffer.
type scene struct {
	buffer *autoscaling.CapacityBuffer
	now    time.Time
	// generation is that of the buffer's PodTemplate; nil for a workload.
	generation *int64
	settings   burst.Buffer
	// spec is that of a new request, without amounts.
	spec agentv1alpha1.ResourceRequestSpec
	// request and pool are the buffer's request as an object and in the form of plans; nil if there is none.
	request *agentv1alpha1.ResourceRequest
	nodes   []corev1.Node
	pool    *burst.Pool
}

func (r *Reconciler) takeStep(ctx context.Context, buffer *autoscaling.CapacityBuffer) error {
	before := buffer.DeepCopy()
	s := &scene{buffer: buffer, now: r.options.Clock.Now()}
	err := r.observeBuffer(ctx, s)
	if invalid, ok := errors.AsType[*invalidBuffer](err); ok {
		s.setReady(metav1.ConditionFalse, invalid.reason, invalid.Error())
		return r.saveStatus(ctx, buffer, before)
	}
	if err != nil {
		return err
	}
	plan := burst.PlanBuffer(&s.settings, s.pool, s.now)
	switch {
	case s.request == nil:
	case s.pool.State == burst.Over && s.reasonOfRequest() == agentv1alpha1.ReasonIdle:
		plan = burst.BufferPlan{Why: agentv1alpha1.ReasonIdle} // the broker would release another one too
	case plan.Why == agentv1alpha1.ReasonRequested && !meta.IsStatusConditionTrue(s.request.Status.Conditions, agentv1alpha1.ConditionReady):
		plan.Why = agentv1alpha1.ReasonSettling // it is granted, but its node is not there yet
	}
	err = r.carryOut(ctx, s, &plan)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		s.showPlan(&plan)
		s.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonInvalid, "the ResourceRequest, whose fields have the names of parameters, was refused: "+err.Error())
		return r.saveStatus(ctx, buffer, before)
	}
	if err != nil {
		return err
	}
	s.showPlan(&plan)
	return r.saveStatus(ctx, buffer, before)
}

// invalidBuffer is the error for a buffer that cannot be served until a user changes it or creates what it names.
type invalidBuffer struct {
	error
	reason string
}

func newInvalidBuffer(reason, format string, args ...any) error {
	return &invalidBuffer{fmt.Errorf(format, args...), reason}
}

func (r *Reconciler) observeBuffer(ctx context.Context, s *scene) error {
	if err := r.readSettings(ctx, s); err != nil {
		return err
	}
	rr, err := owned.FindRequest(ctx, r.client, r.options.Reader, client.ObjectKeyFromObject(s.buffer))
	if err != nil || rr == nil {
		return err
	}
	if !metav1.IsControlledBy(rr, s.buffer) {
		return newInvalidBuffer(agentv1alpha1.ReasonNameTaken, "resource request %q exists and does not belong to this CapacityBuffer: delete one of them", rr.Name)
	}
	if s.nodes, err = owned.NodesOf(ctx, r.client, rr); err != nil {
		return err
	}
	s.request = rr
	s.pool = &burst.Pool{Request: burst.ReadRequest(rr, s.nodes), ChangedAt: rr.CreationTimestamp.Time}
	if at, err := time.Parse(time.RFC3339Nano, rr.Annotations[agentv1alpha1.BufferChangedAnnotation]); err == nil {
		s.pool.ChangedAt = at
	}
	for _, shape := range rr.Spec.PodShapes {
		s.pool.Least += int64(shape.Count)
	}
	s.pool.Used = quantity.Amounts{}
	known := true
	for i := range s.nodes {
		guests, counted := r.options.Pods.GuestsOn(s.nodes[i].Name)
		known, s.pool.Guests = known && counted, s.pool.Guests+int64(guests.Now)
		s.pool.Used.AddInPlace(r.options.Pods.OwnRequestsOn(s.nodes[i].Name))
	}
	key := client.ObjectKeyFromObject(s.buffer)
	m := r.measured[key]
	if m == nil || m.request != rr.UID {
		m = &measured{request: rr.UID}
		r.measured[key] = m
	}
	switch {
	case s.pool.State != burst.Over:
		m.overAt = time.Time{}
	case m.overAt.IsZero():
		m.overAt = s.now
	}
	surplus := int64(0)
	if known {
		surplus = s.settings.SurplusOf(s.pool)
	}
	m.surplus.Observe(surplus, s.now)
	s.pool.OverAt, s.pool.Surplus = m.overAt, m.surplus
	return nil
}

func (r *Reconciler) readSettings(ctx context.Context, s *scene) error {
	spec := &s.buffer.Spec
	switch {
	case len(s.buffer.Name) > maxName:
		return newInvalidBuffer(agentv1alpha1.ReasonInvalid, "the name has more than %d characters, and cannot be that of a ResourceRequest: create the buffer with a shorter one", maxName)
	case spec.Percentage != nil && spec.ScalableRef == nil:
		return newInvalidBuffer(agentv1alpha1.ReasonInvalid, "spec.percentage is a share of the replicas of a workload: name the workload in spec.scalableRef, or set spec.replicas instead")
	case spec.Replicas == nil && spec.Percentage == nil && len(spec.Limits) == 0:
		return newInvalidBuffer(agentv1alpha1.ReasonInvalid, "set spec.replicas, spec.limits or, with spec.scalableRef, spec.percentage")
	}
	from, err := sourceOf(spec)
	if err != nil {
		return err
	}
	err = r.options.Reader.Get(ctx, client.ObjectKey{Namespace: s.buffer.Namespace, Name: from.name}, from.object)
	if apierrors.IsNotFound(err) {
		return newInvalidBuffer(agentv1alpha1.ReasonPodTemplateMissing, "%s %q does not exist in namespace %q: create it; it is looked up every %s", from.kind, from.name, s.buffer.Namespace, r.options.CountInterval)
	}
	if err != nil {
		return fmt.Errorf("read %s %q of namespace %q: %w", from.kind, from.name, s.buffer.Namespace, err)
	}
	if spec.PodTemplateRef != nil {
		s.generation = new(from.object.GetGeneration())
	}
	parameters := map[string]autoscaling.Parameter{}
	for key, value := range s.buffer.Annotations {
		if name, ours := strings.CutPrefix(key, autoscaling.ParameterPrefix); ours {
			parameters[name] = autoscaling.Parameter(value)
		}
	}
	if s.spec, err = autoscaling.RequestSpec([]autoscaling.Pods{{Template: from.name, Spec: from.template.Spec, Count: 1}}, parameters); err != nil {
		return newInvalidBuffer(agentv1alpha1.ReasonInvalid, "%w", err)
	}
	if s.spec.Duration != nil {
		return newInvalidBuffer(agentv1alpha1.ReasonInvalid, "a buffer has no duration: remove annotation %sduration", autoscaling.ParameterPrefix)
	}
	s.settings.Shape = burst.ShapeOf(&agentv1alpha1.ResourceRequest{Spec: s.spec})
	for name := range spec.Limits {
		if err := quantity.CheckName(name); err != nil {
			return newInvalidBuffer(agentv1alpha1.ReasonInvalid, "spec.limits[%s]: %w", name, err)
		}
	}
	if s.settings.Limit, err = quantity.FromResourceList(spec.Limits); err != nil {
		return newInvalidBuffer(agentv1alpha1.ReasonInvalid, "spec.limits: %w", err)
	}
	if s.settings.LimitsNothing() {
		return newInvalidBuffer(agentv1alpha1.ReasonInvalid, "spec.limits name nothing that %s %q requests: limit one of its resources", from.kind, from.name)
	}
	if spec.Replicas != nil {
		s.settings.Replicas = new(int64(*spec.Replicas))
	}
	if spec.Percentage != nil { // the API's description demands a share of at least 1, and the maximum of the two fields
		share := (int64(*spec.Percentage)*int64(ptr.Deref(*from.replicas, 1)) + 99) / 100
		s.settings.Replicas = new(max(share, 1, ptr.Deref(s.settings.Replicas, 0)))
	}
	return nil
}

func (s *scene) reasonOfRequest() string {
	if ready := meta.FindStatusCondition(s.request.Status.Conditions, agentv1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

func (r *Reconciler) carryOut(ctx context.Context, s *scene, plan *burst.BufferPlan) error {
	switch plan.Action {
	case burst.CreatePool:
		return r.createRequest(ctx, s, plan.Pods)
	case burst.ResizePool:
		return r.resizeRequest(ctx, s, plan.Pods)
	case burst.RevertPool:
		before := s.request.DeepCopy()
		burst.Revert(s.request)
		return r.patchRequest(ctx, s, before)
	case burst.DeletePool:
		if busy, err := r.hasMorePods(ctx, s); err != nil || busy {
			return err
		}
		return owned.DeleteRequest(ctx, r.client, s.request)
	}
	return nil
}

func (r *Reconciler) createRequest(ctx context.Context, s *scene, pods int64) error {
	kind := autoscaling.BufferGroupVersion.WithKind("CapacityBuffer")
	rr := &agentv1alpha1.ResourceRequest{ObjectMeta: owned.MetadataOf(s.buffer, kind, s.buffer.Name), Spec: s.spec}
	rr.Spec.PodShapes[0].Count = int32(pods)
	burst.SetPods(&rr.Spec, s.settings.Shape, pods)
	if err := r.client.Create(ctx, rr); err != nil {
		return fmt.Errorf("create resource request %q: %w", client.ObjectKeyFromObject(rr), err)
	}
	r.recordResize(s, rr, pods)
	return nil
}

// resizeRequest also writes the time of the change, so that a restarted agent keeps the pause until the next one.
func (r *Reconciler) resizeRequest(ctx context.Context, s *scene, pods int64) error {
	if grows := pods > s.pool.Room(); !grows {
		if busy, err := r.hasMorePods(ctx, s); err != nil || busy {
			return err
		}
	}
	before := s.request.DeepCopy()
	burst.SetPods(&s.request.Spec, s.pool.Shape, pods)
	delete(s.request.Annotations, agentv1alpha1.BurstFullAnnotation)
	metav1.SetMetaDataAnnotation(&s.request.ObjectMeta, agentv1alpha1.BufferChangedAnnotation, s.now.UTC().Format(time.RFC3339Nano))
	if err := r.patchRequest(ctx, s, before); err != nil {
		return err
	}
	delete(r.measured, client.ObjectKeyFromObject(s.buffer)) // the surplus so far is that of another size
	r.recordResize(s, s.request, pods)
	return nil
}

func (r *Reconciler) patchRequest(ctx context.Context, s *scene, before *agentv1alpha1.ResourceRequest) error {
	if err := r.client.Patch(ctx, s.request, patch.IfUnchanged(before)); err != nil {
		return fmt.Errorf("resize resource request %q: %w", client.ObjectKeyFromObject(s.request), err)
	}
	return nil
}

// hasMorePods reports whether the nodes have more pods than the plan counted, because a scheduler has bound one since.
func (r *Reconciler) hasMorePods(ctx context.Context, s *scene) (bool, error) {
	counted, found := s.pool.Used[corev1.ResourcePods], int64(0)
	for i := range s.nodes {
		var pods corev1.PodList
		if err := r.options.Reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": s.nodes[i].Name}); err != nil {
			return false, fmt.Errorf("list pods on node %q: %w", s.nodes[i].Name, err)
		}
		for j := range pods.Items {
			if !capacity.Finished(&pods.Items[j]) {
				found++
			}
		}
	}
	return found > counted, nil
}

func (r *Reconciler) recordResize(s *scene, rr *agentv1alpha1.ResourceRequest, pods int64) {
	r.options.Recorder.Eventf(s.buffer, rr, corev1.EventTypeNormal, "Resized", "Resize", "resource request %q asks for room for %d pods", rr.Name, pods)
}

func (s *scene) showPlan(plan *burst.BufferPlan) {
	status := &s.buffer.Status
	status.PodTemplateRef, status.PodTemplateGeneration = s.buffer.Spec.PodTemplateRef, s.generation
	status.ProvisioningStrategy = autoscaling.Strategy
	free := s.settings.Free(s.pool)
	status.Replicas = new(int32(free))
	until := plan.Until.UTC().Format(time.TimeOnly)
	switch plan.Why {
	case agentv1alpha1.ReasonRequested:
		text := fmt.Sprintf("there is room for %d more pods", free)
		if free > 0 {
			text += fmt.Sprintf(" on node %q; pods select it with %s: %s", s.request.Status.NodeName, agentv1alpha1.RequestLabel, s.request.Name)
		}
		s.setReady(metav1.ConditionTrue, plan.Why, text)
	case agentv1alpha1.ReasonPausing:
		s.setReady(metav1.ConditionFalse, plan.Why, fmt.Sprintf("room for %d more pods is left; more is requested at %s UTC, one minute after the last change", free, until))
	case agentv1alpha1.ReasonNodeUnusable:
		s.setReady(metav1.ConditionFalse, plan.Why, s.aboutRequest("its node is cordoned or not Ready, so that pods cannot use the room there"))
	case agentv1alpha1.ReasonLimitReached:
		s.setReady(metav1.ConditionFalse, plan.Why, fmt.Sprintf("room for %d more pods is left, and spec.limits allow no more: raise them, or wait until pods leave", free))
	case agentv1alpha1.ReasonNoCapacity:
		s.setReady(metav1.ConditionFalse, plan.Why, s.aboutRequest("more is requested at "+until+" UTC"))
	case agentv1alpha1.ReasonIdle:
		s.setReady(metav1.ConditionFalse, plan.Why, s.aboutRequest("BrokerConfig.spec.idle bounds how long capacity may be unused; delete the request to ask again"))
	default:
		s.setReady(metav1.ConditionFalse, plan.Why, s.aboutRequest(""))
	}
}

// aboutRequest returns what the request says about itself, and a further remark.
func (s *scene) aboutRequest(more string) string {
	text := fmt.Sprintf("resource request %q is being answered", s.buffer.Name)
	if s.request != nil && s.request.Status.Message != "" {
		text = fmt.Sprintf("resource request %q: %s", s.buffer.Name, message.Clip(s.request.Status.Message, message.MaxNote))
	}
	return strings.TrimSuffix(text+"; "+more, "; ")
}

func (s *scene) setReady(status metav1.ConditionStatus, reason, text string) {
	message.SetCondition(&s.buffer.Status.Conditions, autoscaling.BufferReady, status, reason, text, s.buffer.Generation, s.now)
}

func (r *Reconciler) saveStatus(ctx context.Context, buffer, before *autoscaling.CapacityBuffer) error {
	if written, err := patch.Status(ctx, r.client, buffer, before); !written {
		return err
	}
	c := message.ChangedCondition(buffer.Status.Conditions, before.Status.Conditions, autoscaling.BufferReady)
	if c != nil && c.Status == metav1.ConditionFalse && c.Reason != agentv1alpha1.ReasonSettling && c.Reason != agentv1alpha1.ReasonPausing {
		r.options.Recorder.Eventf(buffer, nil, corev1.EventTypeWarning, c.Reason, "Buffer", "%s", message.Clip(c.Message, message.MaxNote))
	}
	return nil
}
