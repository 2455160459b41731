package e2e

import (
	"context"
	"fmt"

	"github.com/google/go-cmp/cmp"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// Workload is the two pods of the sample Deployment on a virtual node, together with their copies in the
// provider.
type Workload struct {
	env      *Environment
	consumer *Cluster

	namespace, provider, node string
	// began maps the names of the pods to their identities at the start.
	began map[string]podIdentity
}

// podIdentity identifies a pod and its copy. It changes if one of them is replaced or restarted.
type podIdentity struct {
	Pod, Twin string
	Restarts  int32
}

// Run deploys a workload in the namespace of a request, on the request's virtual node, and waits until it
// runs.
func (e *Environment) Run(ctx context.Context, c *Cluster, r *agentv1alpha1.ResourceRequest) (*Workload, error) {
	samples, err := ShippedSamples()
	if err != nil {
		return nil, err
	}
	if err := c.Deploy(ctx, r.Namespace, samples.Deployment, OnReservation(r.Status.ReservationName), Named(r.Name)); err != nil {
		return nil, err
	}
	return e.Watch(ctx, c, r.Namespace, r.Status.TargetClusterID, r.Status.NodeName)
}

// Watch waits until the two pods of a namespace on a virtual node and their copies in the provider run.
func (e *Environment) Watch(ctx context.Context, c *Cluster, namespace, provider, node string) (*Workload, error) {
	w := &Workload{env: e, consumer: c, namespace: namespace, provider: provider, node: node}
	var err error
	w.began, err = w.identities(ctx)
	return w, err
}

func (w *Workload) identities(ctx context.Context) (map[string]podIdentity, error) {
	pods, err := w.consumer.AwaitPods(ctx, w.namespace, 2, w.node, settledWithin)
	if err != nil {
		return nil, err
	}
	twins, err := w.env.Twins(ctx, w.provider, pods)
	if err != nil {
		return nil, err
	}
	out := map[string]podIdentity{}
	for _, p := range pods {
		out[p.Name] = podIdentity{Pod: string(p.UID)}
	}
	for _, twin := range twins {
		id := out[twin.Name]
		id.Twin = string(twin.UID)
		for _, s := range twin.Status.ContainerStatuses {
			id.Restarts += s.RestartCount
		}
		out[twin.Name] = id
	}
	return out, nil
}

// Unchanged returns an error if a pod or its copy was replaced or restarted.
func (w *Workload) Unchanged(ctx context.Context) error {
	now, err := w.identities(ctx)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(w.began, now); diff != "" {
		return fmt.Errorf("pods on %s were replaced or restarted (-before +after):\n%s", w.node, diff)
	}
	return nil
}
