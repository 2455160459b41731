package kueue

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/config"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

const (
	// namespace is the namespace in rome for the jobs of the story.
	namespace = "batch"
	// clusterLabel is the label of a virtual node that contains the ID of the provider.
	clusterLabel = "liqo.io/remote-cluster-id"
	// patience is how long a step may take on a busy machine.
	patience = 4 * time.Minute
)

// onPlayground adapts the sample of Kueue's configuration: two jobs fill the local nodes, and Kueue requeues soon.
var onPlayground = strings.NewReplacer(`cpu, nominalQuota: "64"`, `cpu, nominalQuota: "2"`, "backoffBaseSeconds: 60", "backoffBaseSeconds: 1",
	"namespace: default", "namespace: "+namespace)

// borrowing is the job that finds no local node. jobs are all jobs.
const borrowing = "job-3"

var jobs = []string{"job-1", "job-2", borrowing}

// story is one run of the function Story.
type story struct {
	*e2e.Environment
	*e2e.Narrator
	before map[string]e2e.Capacity
	config *brokerv1alpha1.BrokerConfig
	// nodes are the nodes on which the jobs run.
	nodes map[string]*corev1.Node
}

// Story fills local nodes with jobs and then a borrowed node, takes the borrowed node away, and ends the jobs. It
// describes this on out. An error is of type *e2e.Failure.
func Story(ctx context.Context, env *Environment, out io.Writer) error {
	s := &story{Environment: env.Environment.Environment, Narrator: e2e.NewNarrator(out), nodes: map[string]*corev1.Node{}}
	s.config = &brokerv1alpha1.BrokerConfig{
		ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName},
		Spec: brokerv1alpha1.BrokerConfigSpec{Preemption: &brokerv1alpha1.PreemptionConfig{
			Policy: brokerv1alpha1.PreemptLowerPriority, GracePeriod: &metav1.Duration{Duration: time.Second},
		}},
	}
	for _, c := range []struct {
		name string
		tell func(context.Context) error
	}{
		{"rome has a queue for local and borrowed nodes", s.createQueue},
		{"jobs fill the local nodes", s.fillLocalNodes},
		{"the next job borrows a node", s.borrowNode},
		{"the broker needs that provider for others, and moves the node", s.moveNode},
		{"the broker needs every provider, and Kueue requeues the job", s.requeueJob},
		{"the jobs end, and everything is given back", s.endJobs},
	} {
		s.Chapter("%s", c.name)
		if err := c.tell(ctx); err != nil {
			return &e2e.Failure{Step: c.name, Object: "Jobs of namespace " + namespace + " in rome", Log: env.manager.Log(), Err: err}
		}
	}
	return nil
}

func (s *story) rome() *e2e.Cluster { return s.Member("rome") }

// createQueue removes what an interrupted run has left, and creates the queue.
func (s *story) createQueue(ctx context.Context) error {
	if err := s.EnsureNamespace(ctx, s.rome(), namespace); err != nil {
		return err
	}
	if err := s.deleteLeftovers(ctx); err != nil {
		return err
	}
	if err := s.AwaitAdvertised(ctx, patience); err != nil {
		return err
	}
	if err := s.AwaitIdle(ctx, patience); err != nil {
		return err
	}
	var err error
	if s.before, err = s.Available(ctx); err != nil {
		return err
	}
	if err := s.labelNodes(ctx); err != nil {
		return err
	}
	s.Say("kubectl apply -f config/samples/autoscaling/kueue.yaml, with a quota of 2 local cores")
	_, err = s.rome().Apply(ctx, []byte(onPlayground.Replace(string(config.Kueue))))
	return err
}

// labelNodes gives rome's own nodes the label of the local flavor.
func (s *story) labelNodes(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := s.rome().List(ctx, nodes); err != nil {
		return err
	}
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pool":"batch"}}}`))
	for i := range nodes.Items { // there are no virtual nodes yet
		if err := s.rome().Patch(ctx, &nodes.Items[i], label); err != nil {
			return err
		}
	}
	return nil
}

func isVirtual(n *corev1.Node) bool { return n.Labels["liqo.io/type"] == "virtual-node" }

func isLocal(n *corev1.Node) bool { return !isVirtual(n) }

// isVirtualBut returns a function that accepts all virtual nodes but one.
func isVirtualBut(other *corev1.Node) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool { return isVirtual(n) && n.Name != other.Name }
}

func (s *story) fillLocalNodes(ctx context.Context) error {
	for _, name := range jobs[:2] {
		if err := s.runJob(ctx, name, isLocal); err != nil {
			return err
		}
	}
	return s.showWorkloads(ctx)
}

func (s *story) borrowNode(ctx context.Context) error {
	if err := s.runJob(ctx, borrowing, isVirtual); err != nil {
		return err
	}
	return s.showWorkloads(ctx)
}

// runJob creates a job and waits until its pod runs on an accepted node.
func (s *story) runJob(ctx context.Context, name string, accepts func(*corev1.Node) bool) error {
	s.Say("kubectl create job %s", name)
	if err := s.rome().Create(ctx, newJob(name)); err != nil {
		return err
	}
	return s.awaitRunning(ctx, name, accepts)
}

// awaitRunning waits until the pod of a job runs on an accepted node, and notes the node.
func (s *story) awaitRunning(ctx context.Context, job string, accepts func(*corev1.Node) bool) error {
	err := e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		pods, err := s.podsOf(ctx, job)
		if err != nil {
			return "", err
		}
		for _, p := range pods {
			node := &corev1.Node{}
			if err := s.rome().Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, node); client.IgnoreNotFound(err) != nil {
				return "", err
			}
			if node.Name != "" && accepts(node) {
				s.nodes[job] = node
				return "", nil
			}
		}
		workloads, err := s.listWorkloads(ctx)
		if err != nil || workloads[job] == nil {
			return "a Workload of " + job, err
		}
		return fmt.Sprintf("a pod of %s to run, Kueue says: %q", job, workloads[job].tableRow(job)), nil
	})
	if err != nil {
		return err
	}
	s.Say("%s runs on node %s", job, s.nodes[job].Name)
	return nil
}

// podsOf returns the running pods of a job.
func (s *story) podsOf(ctx context.Context, job string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := s.rome().List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{batchv1.JobNameLabel: job}); err != nil {
		return nil, err
	}
	var running []corev1.Pod
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			running = append(running, p)
		}
	}
	return running, nil
}

func (s *story) showWorkloads(ctx context.Context) error {
	workloads, err := s.listWorkloads(ctx)
	rows := [][]string{{"JOB", "FLAVOR", "CHECK", "MESSAGE"}}
	for _, job := range jobs {
		if w := workloads[job]; w != nil {
			rows = append(rows, w.tableRow(job))
		}
	}
	s.Table(rows...)
	return err
}

// moveNode lets a request of higher priority take the provider of the borrowing job. The reservation moves to another
// provider, and Kueue does not notice.
func (s *story) moveNode(ctx context.Context) error {
	if err := s.Broker.Create(ctx, s.config); err != nil {
		return err
	}
	before := s.nodes[borrowing]
	if err := s.takeProvider(ctx, "urgent-1"); err != nil {
		return err
	}
	if err := s.awaitRunning(ctx, borrowing, isVirtualBut(before)); err != nil {
		return err
	}
	retries, err := s.countRetries(ctx)
	if err == nil && retries > 0 {
		return fmt.Errorf("%s was requeued", borrowing)
	}
	return err
}

// requeueJob also takes the last provider. Kueue requeues the job, which runs again when the providers are free.
func (s *story) requeueJob(ctx context.Context) error {
	before := s.nodes[borrowing]
	if err := s.takeProvider(ctx, "urgent-2"); err != nil {
		return err
	}
	err := e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		if retries, err := s.countRetries(ctx); err != nil || retries > 0 {
			return "", err
		}
		return "Kueue to requeue " + borrowing, nil
	})
	if err != nil {
		return err
	}
	if err := s.showWorkloads(ctx); err != nil {
		return err
	}
	s.Say("kubectl delete resourcerequests urgent-1 urgent-2")
	for _, name := range []string{"urgent-1", "urgent-2"} {
		urgent := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := s.rome().DeleteAndWait(ctx, urgent, patience); err != nil {
			return err
		}
	}
	if err := s.awaitRunning(ctx, borrowing, isVirtualBut(before)); err != nil {
		return err
	}
	return s.showWorkloads(ctx)
}

// takeProvider requests all cores of the provider of the borrowing job, with a higher priority, and waits until it has
// them.
func (s *story) takeProvider(ctx context.Context, name string) error {
	provider := s.nodes[borrowing].Labels[clusterLabel]
	s.Say("request %s of priority 10 needs all cores of %s", name, provider)
	all := corev1.ResourceList{
		corev1.ResourceCPU: s.before[provider].Available[corev1.ResourceCPU], corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	urgent, err := s.rome().Request(ctx, namespace, name, all, func(spec *agentv1alpha1.ResourceRequestSpec) {
		spec.Priority, spec.QueuePolicy = 10, brokerv1alpha1.QueuePolicyQueue
		spec.Constraints = &brokerv1alpha1.Constraints{IncludeClusters: []string{provider}}
	})
	if err != nil {
		return err
	}
	if err := s.rome().AwaitReady(ctx, urgent, patience); err != nil {
		return err
	}
	s.Say("%s has them", name)
	return nil
}

// countRetries returns how often Kueue has requeued the borrowing job.
func (s *story) countRetries(ctx context.Context) (int32, error) {
	workloads, err := s.listWorkloads(ctx)
	if err != nil {
		return 0, err
	}
	if w := workloads[borrowing]; w != nil && len(w.Status.AdmissionChecks) == 1 {
		return w.Status.AdmissionChecks[0].RetryCount, nil
	}
	return 0, fmt.Errorf("%s has no admission check", borrowing)
}

// endJobs ends the pods of all jobs, as their containers would, and waits until all clusters are as they were before the
// story.
func (s *story) endJobs(ctx context.Context) error {
	for _, job := range jobs {
		if err := s.completeJob(ctx, job); err != nil {
			return err
		}
	}
	if err := s.awaitGivenBack(ctx); err != nil {
		return err
	}
	s.Say("Kueue has deleted the ProvisioningRequest, and the virtual node is gone")
	if err := s.deleteLeftovers(ctx); err != nil {
		return err
	}
	if err := s.AwaitAvailable(ctx, s.before, patience); err != nil {
		return err
	}
	s.Say("all capacity is available again")
	return nil
}

// completeJob ends the pod of a job, and waits until the job has succeeded.
func (s *story) completeJob(ctx context.Context, name string) error {
	pods, err := s.podsOf(ctx, name)
	if err != nil {
		return err
	}
	where := s.rome()
	if node := s.nodes[name]; isVirtual(node) {
		where = s.Member(node.Labels[clusterLabel])
		if pods, err = s.Twins(ctx, where.Name, pods); err != nil {
			return err
		}
	}
	for i := range pods {
		if err := where.Status().Patch(ctx, &pods[i], client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))); err != nil {
			return err
		}
	}
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		job := newJob(name)
		if err := s.rome().Get(ctx, client.ObjectKeyFromObject(job), job); err != nil || job.Status.Succeeded == 1 {
			return "", err
		}
		return fmt.Sprintf("%s to succeed: %+v", name, job.Status), nil
	})
}

// awaitGivenBack waits until no ResourceRequest is left, and nothing of any peering.
func (s *story) awaitGivenBack(ctx context.Context) error {
	err := e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		list := &agentv1alpha1.ResourceRequestList{}
		if err := s.rome().List(ctx, list, client.InNamespace(namespace)); err != nil || len(list.Items) == 0 {
			return "", err
		}
		return fmt.Sprintf("ResourceRequest %q to be gone: %s", list.Items[0].Name, list.Items[0].Status.Message), nil
	})
	if err != nil {
		return err
	}
	return s.AwaitClean(ctx, patience)
}

// deleteLeftovers deletes the jobs and what the story has created besides, and waits until nothing is left.
func (s *story) deleteLeftovers(ctx context.Context) error {
	if err := s.Broker.DeleteAndWait(ctx, s.config, patience); err != nil {
		return err
	}
	if err := s.rome().DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	if err := s.rome().DeleteAllOf(ctx, &agentv1alpha1.ResourceRequest{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	return s.awaitGivenBack(ctx)
}
