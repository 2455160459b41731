// Package broker contains the validating webhooks of the broker's cluster, for Reservations,
// BrokerConfigs and ClusterAdvertisements. The checks are functions without side effects; this file
// reads what they need.
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
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=brokerconfigs;clusteradvertisements,verbs=get;list;watch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// VerbImpersonate is an RBAC verb on reservations.broker.fluidos.eu, with the requesterID as
// resource name. A user needs it to create a Reservation or to change its spec. The broker itself
// does not need it.
const VerbImpersonate = "impersonate-requester"

// Options configure the webhooks.
type Options struct {
	// Quote returns what the broker would decide about a Reservation. It is called in dry runs.
	Quote func(context.Context, *brokerv1alpha1.Reservation) (*v1.Quote, error)
	// Previewer adds the quotes to the answers to dry runs, and limits how many quotes each user
	// gets.
	Previewer *webhooks.Previewer
}

// Setup registers the webhooks of the broker's CRDs.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	c := mgr.GetClient()
	// Start the informers now, on every replica, so that the cache is filled before the first
	// request.
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
			if err == nil {
				o.preview(ctx, &v, r)
			}
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

// preview adds a quote to the dry run of a Reservation that has no provider yet.
func (o *Options) preview(ctx context.Context, v *webhooks.Verdict, r *brokerv1alpha1.Reservation) {
	switch phase := r.Status.Phase; {
	case !webhooks.IsDryRun(ctx) || r.Spec.Release:
		return
	case phase == brokerv1alpha1.ReservationReserved || phase == brokerv1alpha1.ReservationActive:
		v.Warn("quote: none: the Reservation has a provider already, which decides about a change when it is made")
		return
	}
	o.Previewer.AddQuote(ctx, v, r.Spec.QueuePolicy == brokerv1alpha1.QueuePolicyQueue, func(ctx context.Context) (*v1.Quote, error) {
		return o.Quote(ctx, r)
	})
}

// readState returns the spec of the BrokerConfig, which is empty if there is none, and all
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

// checkImpersonation asks the API server whether the user of the request may create a Reservation
// for its requesterID.
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
