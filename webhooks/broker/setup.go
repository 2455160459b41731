// Package broker contains the webhooks of the broker's cluster, for Reservations, BrokerConfigs
// and ClusterAdvertisements. Checks are functions of values; this file fetches the values.
package broker

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=brokerconfigs;clusteradvertisements,verbs=get;list;watch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// VerbImpersonate is the verb that users need on reservations.broker.fluidos.eu, with the
// requesterID as resourceName, to create a Reservation. The broker itself does not need it.
const VerbImpersonate = "impersonate-requester"

// Setup registers the webhooks of the broker's CRDs.
func Setup(ctx context.Context, mgr ctrl.Manager) error {
	c := mgr.GetClient()
	// Fill the cache before the first request, also on replicas that do not lead.
	for _, kind := range []client.Object{&brokerv1alpha1.BrokerConfig{}, &brokerv1alpha1.ClusterAdvertisement{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("webhooks: reading %T: %w", kind, err)
		}
	}
	err := webhooks.Register(mgr, &brokerv1alpha1.Reservation{}, webhooks.Kind[*brokerv1alpha1.Reservation]{
		Spec: func(r *brokerv1alpha1.Reservation) any { return r.Spec },
		Judge: func(ctx context.Context, r *brokerv1alpha1.Reservation) (webhooks.Verdict, error) {
			config, clusters, err := readState(ctx, c)
			if err != nil {
				return webhooks.Verdict{}, err
			}
			v := CheckReservation(r, config, clusters)
			denied, err := checkImpersonation(ctx, c, r)
			v.Refuse(denied...)
			return v, err
		},
	})
	if err != nil {
		return err
	}
	err = webhooks.Register(mgr, &brokerv1alpha1.BrokerConfig{}, webhooks.Kind[*brokerv1alpha1.BrokerConfig]{
		Spec: func(b *brokerv1alpha1.BrokerConfig) any { return b.Spec },
		Judge: func(ctx context.Context, b *brokerv1alpha1.BrokerConfig) (webhooks.Verdict, error) {
			_, clusters, err := readState(ctx, c)
			return CheckBrokerConfig(b, clusters), err
		},
	})
	if err != nil {
		return err
	}
	return webhooks.Register(mgr, &brokerv1alpha1.ClusterAdvertisement{}, webhooks.Kind[*brokerv1alpha1.ClusterAdvertisement]{
		Spec: func(a *brokerv1alpha1.ClusterAdvertisement) any { return a.Spec },
		Judge: func(ctx context.Context, a *brokerv1alpha1.ClusterAdvertisement) (webhooks.Verdict, error) {
			config, others, err := readState(ctx, c)
			if err != nil {
				return webhooks.Verdict{}, err
			}
			return CheckClusterAdvertisement(a, config, others), nil
		},
	})
}

// readState returns the BrokerConfig in force, empty if there is none, and all
// ClusterAdvertisements.
func readState(ctx context.Context, c client.Reader) (*brokerv1alpha1.BrokerConfigSpec, []brokerv1alpha1.ClusterAdvertisement, error) {
	config := &brokerv1alpha1.BrokerConfig{}
	err := c.Get(ctx, client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}, config)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading BrokerConfig %q: %w", brokerv1alpha1.BrokerConfigName, err)
	}
	clusters := &brokerv1alpha1.ClusterAdvertisementList{}
	if err := c.List(ctx, clusters); err != nil {
		return nil, nil, fmt.Errorf("listing ClusterAdvertisements: %w", err)
	}
	return &config.Spec, clusters.Items, nil
}

// checkImpersonation asks the API server whether the caller may create a Reservation for its
// requester.
func checkImpersonation(ctx context.Context, c client.Client, r *brokerv1alpha1.Reservation) (field.ErrorList, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, err
	}
	user := request.UserInfo
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: VerbImpersonate, Namespace: r.Namespace, Name: r.Spec.RequesterID,
			Group: brokerv1alpha1.GroupVersion.Group, Version: brokerv1alpha1.GroupVersion.Version, Resource: "reservations",
		},
	}}
	for key, values := range user.Extra {
		review.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if err := c.Create(ctx, review); err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("checking whether %q may request in the name of %q: %w", user.Username, r.Spec.RequesterID, err))
	}
	if review.Status.Allowed {
		return nil, nil
	}
	return field.ErrorList{field.Forbidden(spec.Child("requesterID"), fmt.Sprintf(
		"user %q may not request in the name of %q: have an administrator grant the verb %s on reservations.%s with resourceName %q in namespace %q",
		user.Username, r.Spec.RequesterID, VerbImpersonate, brokerv1alpha1.GroupVersion.Group, r.Spec.RequesterID, r.Namespace))}, nil
}
