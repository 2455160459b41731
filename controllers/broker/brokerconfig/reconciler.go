package brokerconfig

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// Reconcile gives the broker the configuration in the BrokerConfig if the configuration is valid, and the defaults if
// there is no BrokerConfig. It applies no part of an invalid configuration, except as keepUsableConfig describes.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := &brokerv1alpha1.BrokerConfig{}
	err := r.client.Get(ctx, req.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.applySpec(ctx, settings.Default(), &brokerv1alpha1.BrokerConfig{})
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	ready := metav1.Condition{
		Type: brokerv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Applied",
		Message: "the broker uses this configuration", ObservedGeneration: obj.Generation,
	}
	config, err := specs.ReadConfig(&obj.Spec)
	if err != nil {
		kept, failed := r.keepUsableConfig(ctx, obj)
		if failed != nil {
			return ctrl.Result{}, failed
		}
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Invalid", err.Error()+"; "+kept
	} else {
		if err := r.applySpec(ctx, config, obj); err != nil {
			return ctrl.Result{}, err
		}
		ready.Message += describeContradictions(config.Access)
	}
	before := obj.DeepCopy()
	obj.Status.ObservedGeneration = obj.Generation
	meta.SetStatusCondition(&obj.Status.Conditions, ready)
	r.testChannel(ctx, obj)
	if equality.Semantic.DeepEqual(before.Status, obj.Status) || !r.broker.Serving() {
		// Every replica applies the configuration. Only the leader writes the status.
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.client.Status().Patch(ctx, obj, client.MergeFrom(before)))
}

// keepUsableConfig keeps the previous configuration in force and returns the text for the condition. If there is no
// previous configuration, because the BrokerConfig is invalid when the broker starts, it applies the defaults
// together with the access policy of the BrokerConfig (admission, lists of clusters and rate limits), so that denied
// clusters stay out.
func (r *Reconciler) keepUsableConfig(ctx context.Context, obj *brokerv1alpha1.BrokerConfig) (string, error) {
	if r.broker.Configured() {
		return "the previous configuration stays in force", nil
	}
	usable := &brokerv1alpha1.BrokerConfig{ObjectMeta: obj.ObjectMeta, Spec: brokerv1alpha1.BrokerConfigSpec{
		Admission: obj.Spec.Admission, ApprovedClusters: obj.Spec.ApprovedClusters, DeniedClusters: obj.Spec.DeniedClusters, RateLimits: obj.Spec.RateLimits,
	}}
	config := settings.Default()
	config.Access = access.PolicyOf(&obj.Spec)
	return "its access lists are in force, everything else has its default", r.applySpec(ctx, config, usable)
}

// applySpec gives a configuration to the broker, together with the encoded spec and its author, which the journal
// records.
func (r *Reconciler) applySpec(ctx context.Context, config settings.Config, obj *brokerv1alpha1.BrokerConfig) error {
	document, err := specs.Document(&obj.Spec, obj.Generation)
	if err != nil {
		return err
	}
	config.Document, config.Generation = document, obj.Generation
	config.By = ledger.Administrator(actor.Clean(actor.Author(obj)))
	r.broker.SetConfig(ctx, config)
	return r.outbox.SetChannels(config.Notifications)
}

// testChannel sends the test event that an annotation asks for, and shows the result in a condition. Only the leader
// tests, and each test once.
func (r *Reconciler) testChannel(ctx context.Context, obj *brokerv1alpha1.BrokerConfig) {
	test := obj.Annotations[brokerv1alpha1.NotifyTestAnnotation]
	channel, id, valid := strings.Cut(test, "/")
	if !valid || !r.broker.Serving() {
		return
	}
	done := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionNotificationTested)
	if done != nil && strings.HasPrefix(done.Message, test+": ") {
		return
	}
	result := metav1.Condition{
		Type: brokerv1alpha1.ConditionNotificationTested, Status: metav1.ConditionTrue, Reason: "Delivered",
		Message: test + ": the receiver has accepted the event", ObservedGeneration: obj.Generation,
	}
	if err := r.outbox.Test(ctx, channel, id); err != nil {
		result.Status, result.Reason = metav1.ConditionFalse, "DeliveryFailed"
		result.Message = message.Clip(test+": "+err.Error(), message.MaxStatus)
	}
	meta.SetStatusCondition(&obj.Status.Conditions, result)
}

func describeContradictions(policy access.Policy) string {
	both := policy.Contradictions()
	if len(both) == 0 {
		return ""
	}
	return fmt.Sprintf("; approvedClusters and deniedClusters both have %q: denied wins", both)
}
