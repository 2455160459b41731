package installation

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

const (
	// preflightEvery is how long an observation of Liqo is reused. During this time, the broker may
	// still choose a cluster whose Liqo has just stopped, and does not choose one whose Liqo has
	// just started. One observation costs four reads.
	preflightEvery = 20 * time.Second
	// preflightTimeout limits the time of one observation, because the caller waits for it.
	preflightTimeout = 5 * time.Second
)

// Preflight checks at intervals whether Liqo in this cluster can be used.
type Preflight struct {
	observe func(context.Context) (Installation, error)
	clock   clock.PassiveClock

	// mu guards the fields below.
	mu sync.Mutex
	// next is when Liqo must be observed again.
	next time.Time
	last metav1.Condition
}

// NewPreflight returns a Preflight for Liqo in the given namespace. It reads Liqo's Deployments and
// settings from the API server, and the objects of peerings from the cache.
func NewPreflight(server rest.Interface, reader, cache client.Reader, namespace string, c clock.PassiveClock) *Preflight {
	return &Preflight{clock: c, observe: func(ctx context.Context) (seen Installation, err error) {
		if seen, err = ObserveInstallation(ctx, server, reader, namespace); err != nil {
			return seen, err
		}
		seen.Neglected, err = findNeglected(ctx, cache, c.Now())
		return seen, err
	}}
}

// Condition returns the condition LiqoReady. It observes Liqo if the last observation is too old.
// If the observation fails, it returns the last known condition or, if there is none, one with the
// status Unknown.
func (p *Preflight) Condition(ctx context.Context) *metav1.Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.observeDue(ctx)
	return &last
}

func (p *Preflight) observeDue(ctx context.Context) metav1.Condition {
	now := p.clock.Now()
	if now.Before(p.next) {
		return p.last
	}
	p.next = now.Add(preflightEvery)
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	seen, err := p.observe(ctx)
	switch {
	case err == nil:
		p.last = seen.Judge()
	case p.last.Type == "":
		p.last = metav1.Condition{
			Type: agentv1alpha1.ConditionLiqoReady, Status: metav1.ConditionUnknown, Reason: agentv1alpha1.ReasonLiqoHidden,
			Message: "Liqo could not be inspected: " + err.Error(),
		}
	}
	return p.last
}

// neglectedAfter is how old an object must be to count as neglected if Liqo's controller manager
// has not processed it. Processing normally takes less than a second.
const neglectedAfter = 30 * time.Second

// Neglected is an object that Liqo's controller manager has not processed.
type Neglected struct {
	// Object is the kind, the namespace and the name of the object.
	Object string
	Since  time.Time
}

// findNeglected returns the oldest object that Liqo's controller manager in this cluster should
// have processed but has not processed, or nil. It ignores those that a peer wrote, who may be the
// cause, and those that are older than a processed one, because then the object itself must be the
// cause. It detects a controller manager that hangs: its Deployment looks healthy until a probe of
// the kubelet fails, and some defects never make a probe fail.
func findNeglected(ctx context.Context, reader client.Reader, now time.Time) (*Neglected, error) {
	var found []Neglected
	var processed time.Time
	note := func(kind string, obj client.Object, done bool) {
		since := obj.GetCreationTimestamp().Time
		switch {
		case object.Replicated(obj):
		case done && since.After(processed):
			processed = since
		case !done && obj.GetDeletionTimestamp() == nil && now.Sub(since) >= neglectedAfter:
			found = append(found, Neglected{Object: fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj)), Since: since})
		}
	}
	var tenants authv1beta1.TenantList
	var identities authv1beta1.IdentityList
	var slices authv1beta1.ResourceSliceList
	for _, list := range []client.ObjectList{&tenants, &identities, &slices} {
		if err := reader.List(ctx, list); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("listing Liqo's objects: %w", err)
		}
	}
	for i := range tenants.Items {
		note("Tenant", &tenants.Items[i], hasCertificate(&tenants.Items[i]))
	}
	for i := range identities.Items {
		note("Identity", &identities.Items[i], identities.Items[i].Status.KubeconfigSecretRef != nil)
	}
	for i := range slices.Items {
		s := &slices.Items[i]
		if s.Labels[consts.ReplicationRequestedLabel] == consts.ReplicationRequestedLabelValue { // Liqo ignores others
			note("ResourceSlice", s, len(s.Spec.CSR) > 0)
		}
	}
	var oldest *Neglected
	for i, n := range found {
		if n.Since.After(processed) && (oldest == nil || n.Since.Before(oldest.Since)) {
			oldest = &found[i]
		}
	}
	return oldest, nil
}

func hasCertificate(t *authv1beta1.Tenant) bool {
	return t.Status.AuthParams != nil || len(t.Spec.CSR) == 0 || t.Spec.TenantCondition == authv1beta1.TenantConditionDrained
}
