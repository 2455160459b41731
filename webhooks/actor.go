package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
)

// Paths of the webhooks that record users.
const (
	// authorPath is the path of the webhook that annotates an object with the user who writes its
	// spec, and refuses amounts that are none.
	authorPath = "/mutate-requested-by"
	// deleterPath is the path of the webhook that records, in annotations, the user who deletes an
	// object that has finalizers.
	deleterPath = "/record-deleted-by"
)

// RecordActors registers the webhooks that record who writes and who deletes objects. The webhook
// configurations of the charts say for which kinds the API server calls them. now returns the
// current time.
func RecordActors(mgr ctrl.Manager, now func() time.Time) {
	server := mgr.GetWebhookServer()
	server.Register(authorPath, &webhook.Admission{Handler: admission.HandlerFunc(stampAuthor)})
	recorder := deletionRecorder{mgr.GetClient(), now}
	server.Register(deleterPath, &webhook.Admission{Handler: recorder})
}

// unstamped are the kinds whose amounts the webhook checks, but whose authors it does not record.
var unstamped = []string{"ClusterAdvertisement", "Quote"}

// stampAuthor sets the annotations that name the author of an object's spec. If an update leaves
// the spec unchanged, stampAuthor restores the previous values of the annotations. It refuses amounts
// that the schema would refuse without naming a remedy: validating webhooks run after the schema.
func stampAuthor(_ context.Context, req admission.Request) admission.Response {
	object, err := decodeObject(req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	before := &unstructured.Unstructured{}
	if req.Operation == admissionv1.Update {
		if before, err = decodeObject(req.OldObject.Raw); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
	}
	changed := req.Operation == admissionv1.Create || !sameContent(object, before)
	if errs := checkAmounts(field.NewPath("spec"), "spec", object.Object["spec"]); changed && len(errs) > 0 {
		invalid := apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), object.GetName(), errs)
		return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &invalid.ErrStatus}}
	}
	if slices.Contains(unstamped, req.Kind.Kind) {
		return admission.Allowed("")
	}
	object.SetAnnotations(actor.Stamp(object.GetAnnotations(), before.GetAnnotations(), req.UserInfo.Username, before.GetGeneration(), changed))
	stamped, err := object.MarshalJSON()
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, stamped)
}

func decodeObject(raw []byte) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("reading the object under review: %w", err)
	}
	return out, nil
}

// sameContent compares as the API server does when it decides whether to increment the generation.
func sameContent(a, b *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(contentOf(a), contentOf(b))
}

func contentOf(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for key, value := range o.Object {
		if key != "metadata" && key != "status" {
			out[key] = value
		}
	}
	return out
}

// deletionRecorder annotates an object with the user who deletes it. It never refuses the deletion.
type deletionRecorder struct {
	client client.Client
	now    func() time.Time
}

// Handle implements admission.Handler. Since the patch changes the object, the API server calls
// the webhook once more for the same deletion; that call finds the annotations and changes
// nothing.
func (d deletionRecorder) Handle(ctx context.Context, req admission.Request) admission.Response {
	if err := d.record(ctx, req); err != nil {
		log.FromContext(ctx).Info("the user who deletes an object is not recorded", "object", req.Namespace+"/"+req.Name, "reason", err.Error())
	}
	return admission.Allowed("")
}

func (d deletionRecorder) record(ctx context.Context, req admission.Request) error {
	if req.DryRun != nil && *req.DryRun {
		return nil
	}
	object, err := decodeObject(req.OldObject.Raw)
	if err != nil || object.GetDeletionTimestamp() != nil || len(object.GetFinalizers()) == 0 {
		return err
	}
	annotations := actor.Deletion(object, req.UserInfo.Username, d.now())
	if annotations == nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.GetUID(), "annotations": annotations}})
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
	target.SetGroupVersionKind(schema.GroupVersionKind(req.Kind))
	return d.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
}
