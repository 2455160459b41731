package brokerconfig

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
)

// Reconcile hands a valid configuration to the broker. An invalid one is not applied in part.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := &brokerv1alpha1.BrokerConfig{}
	err := r.client.Get(ctx, req.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		r.broker.SetConfig(ctx, broker.DefaultConfig())
		return ctrl.Result{}, nil
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
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Invalid", err.Error()+"; "+r.keepUsableConfig(ctx, &obj.Spec)
	} else {
		r.broker.SetConfig(ctx, config)
		ready.Message += describeContradictions(config.Access)
	}
	before := obj.DeepCopy()
	obj.Status.ObservedGeneration = obj.Generation
	meta.SetStatusCondition(&obj.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before.Status, obj.Status) || !r.broker.Serving() {
		// Every replica applies the configuration; only the serving one writes the status.
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.client.Status().Patch(ctx, obj, client.MergeFrom(before)))
}

// keepUsableConfig leaves the previous configuration in force and returns the text for the condition. A broker that
// starts with an invalid configuration still applies its access lists, so that denied clusters stay out.
func (r *Reconciler) keepUsableConfig(ctx context.Context, spec *brokerv1alpha1.BrokerConfigSpec) string {
	if r.broker.Configured() {
		return "the previous configuration stays in force"
	}
	config := broker.DefaultConfig()
	config.Access = access.PolicyOf(spec)
	r.broker.SetConfig(ctx, config)
	return "its access lists are in force, everything else has its default"
}

func describeContradictions(policy access.Policy) string {
	both := policy.Contradictions()
	if len(both) == 0 {
		return ""
	}
	return fmt.Sprintf("; approvedClusters and deniedClusters both have %q: denied wins", both)
}
