package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// Kubelet runs the pods of a namespace as local processes and writes their status, as kubelets do. It also forwards
// connections to the namespace's Services, as kube-proxy does. Other programs can then install charts without changes:
// Deployments and Jobs create pods, as in a real cluster. The label selector RealPods of the control plane must match
// these pods.
type Kubelet struct {
	release  *Release
	api      kubernetes.Interface
	services corelisters.ServiceLister

	mu       sync.Mutex // guards the fields below
	sandbox  map[types.UID]*sandbox
	backends map[backend]*service
}

// sandbox is a pod that this Kubelet runs.
type sandbox struct {
	*Pod
	labels labels.Set
	// cancel stops the pod.
	cancel context.CancelFunc

	mu    sync.Mutex // guards ready
	ready bool
}

// probeInterval is how often the readiness of a pod is checked.
const probeInterval = 300 * time.Millisecond

// StartKubelet starts a Kubelet for Options.Namespace, which runs until the cluster stops. It ignores pods whose
// container no program replaces. It does not use Options.Chart. Options.Name is used in the names of ports.
func StartKubelet(ctx context.Context, o Options) (*Kubelet, error) {
	r, err := New(o)
	if err != nil {
		return nil, err
	}
	lifetime := o.Cluster.Lifetime()
	if r.store, err = openStore(ctx, lifetime, o.Cluster.RESTConfig(), o.Namespace, r.remount); err != nil {
		return nil, err
	}
	k := &Kubelet{release: r, sandbox: map[types.UID]*sandbox{}, backends: map[backend]*service{}}
	if k.api, err = kubernetes.NewForConfig(o.Cluster.RESTConfig()); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(k.api, 0, informers.WithNamespace(o.Namespace))
	k.services = factory.Core().V1().Services().Lister()
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.syncPod(lifetime, obj) },
		UpdateFunc: func(_, obj any) { k.syncPod(lifetime, obj) },
		DeleteFunc: k.stopDeleted,
	})
	if err != nil {
		return nil, err
	}
	expose := func(any) { k.exposeServices(lifetime) }
	_, err = factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: expose, UpdateFunc: func(_, obj any) { expose(obj) }, DeleteFunc: expose,
	})
	if err != nil {
		return nil, err
	}
	factory.Start(lifetime.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("reading every %s of namespace %q: %w", kind.Elem().Name(), o.Namespace, context.Cause(ctx))
		}
	}
	return k, nil
}

// Pods returns the ready pods, sorted by name.
func (k *Kubelet) Pods() []*Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*Pod
	for _, s := range k.sandbox {
		if s.isReady() {
			all = append(all, s.Pod)
		}
	}
	slices.SortFunc(all, func(a, b *Pod) int { return strings.Compare(a.name, b.name) })
	return all
}

// syncPod starts a pod that was bound to a node, and stops a pod that is being deleted.
func (k *Kubelet) syncPod(ctx context.Context, obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s, known := k.sandbox[pod.UID]
	switch {
	case known && pod.DeletionTimestamp != nil:
		s.cancel()
	case !known && pod.DeletionTimestamp != nil || !known && hasEnded(pod):
		// The pod has no process: it ended before this Kubelet started, or it never ran.
		if pod.DeletionTimestamp != nil && k.owns(pod) {
			go k.deletePod(ctx, pod)
		}
	case !known && k.owns(pod):
		s = k.newSandbox(pod)
		lifetime, cancel := context.WithCancel(ctx)
		s.cancel = cancel
		k.sandbox[pod.UID] = s
		go k.runPod(lifetime, s, pod)
	}
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// owns reports whether this Kubelet runs a pod: the pod must have exactly one container, and a program must replace it.
func (k *Kubelet) owns(pod *corev1.Pod) bool {
	if len(pod.Spec.Containers) != 1 {
		return false
	}
	_, ok := k.release.program(&pod.Spec.Containers[0])
	return ok
}

// stopDeleted stops a pod whose object was deleted without a grace period.
func (k *Kubelet) stopDeleted(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s, known := k.sandbox[pod.UID]; known {
		s.cancel()
	}
}

// newSandbox returns the sandbox for a pod. It removes the volume with the token, because the process gets a kubeconfig
// instead.
func (k *Kubelet) newSandbox(pod *corev1.Pod) *sandbox {
	template := corev1.PodTemplateSpec{Spec: *pod.Spec.DeepCopy()}
	token := map[string]bool{}
	template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool {
		token[v.Name] = v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool {
			return p.ServiceAccountToken != nil
		})
		return token[v.Name]
	})
	c := &template.Spec.Containers[0]
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return token[m.Name] })
	return &sandbox{
		Pod:    &Pod{release: k.release, name: pod.Name, template: template},
		labels: maps.Clone(pod.Labels),
	}
}

// runPod runs a pod until its context ends. It then deletes the pod's object.
func (k *Kubelet) runPod(ctx context.Context, s *sandbox, pod *corev1.Pod) {
	k.addVolumes(s)
	defer k.removeVolumes(s)
	for ctx.Err() == nil && !k.startProcess(ctx, s, pod) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if s.process != nil {
		k.watchReadiness(ctx, s, pod)
	}
	<-ctx.Done()
	k.stopPod(s, pod)
}

// addVolumes makes the release update the volumes of a pod when the Secrets and ConfigMaps change.
func (k *Kubelet) addVolumes(s *sandbox) {
	k.release.mu.Lock()
	defer k.release.mu.Unlock()
	k.release.pods[s.name] = []*Pod{s.Pod}
}

func (k *Kubelet) removeVolumes(s *sandbox) {
	k.release.mu.Lock()
	defer k.release.mu.Unlock()
	delete(k.release.pods, s.name)
}

// startProcess starts the process of a pod, and reports whether it has started. If not, it writes the reason into the
// pod's status.
func (k *Kubelet) startProcess(ctx context.Context, s *sandbox, pod *corev1.Pod) bool {
	err := s.prepare(ctx)
	var spec process.Spec
	if err == nil {
		spec, err = s.command(nil)
	}
	if err == nil {
		spec.Restart = pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
		s.process, err = k.release.options.Cluster.Processes().Start(spec)
	}
	if err != nil {
		k.writeStatus(ctx, pod, corev1.PodPending, false, corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: err.Error()},
		})
		return false
	}
	return true
}

// watchReadiness writes the readiness of a pod into its status until the context ends, or the process ends and is not
// restarted.
func (k *Kubelet) watchReadiness(ctx context.Context, s *sandbox, pod *corev1.Pod) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	k.writeStatus(ctx, pod, corev1.PodRunning, false, running)
	probe, err := s.readiness()
	if err != nil {
		probe = func(context.Context) error { return err }
	}
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		ready := probe == nil || probe(ctx) == nil
		if s.setReady(ready) {
			k.writeStatus(ctx, pod, corev1.PodRunning, ready, running)
			k.connectPods()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.process.Done():
			s.setReady(false)
			phase, state := terminatedState(s.process.Err())
			k.writeStatus(ctx, pod, phase, false, state)
			return
		case <-tick.C:
		}
	}
}

// terminatedState returns the pod phase and the container state after the program ended with err.
func terminatedState(err error) (corev1.PodPhase, corev1.ContainerState) {
	ended := &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.Now()}
	if err == nil {
		return corev1.PodSucceeded, corev1.ContainerState{Terminated: ended}
	}
	ended.Reason, ended.Message, ended.ExitCode = "Error", err.Error(), 1
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		ended.ExitCode = int32(exit.ExitCode())
	}
	return corev1.PodFailed, corev1.ContainerState{Terminated: ended}
}

// stopPod removes a pod from its Services, stops its process and deletes its object.
func (k *Kubelet) stopPod(s *sandbox, pod *corev1.Pod) {
	s.setReady(false)
	k.connectPods()
	k.release.options.Cluster.Processes().Remove(s.name)
	k.deletePod(k.release.options.Cluster.Lifetime(), pod)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sandbox, pod.UID)
}

// deletePod deletes the object of a pod whose process has ended. An error is ignored: the pod then stays, and a test
// that waits for its deletion fails.
func (k *Kubelet) deletePod(ctx context.Context, pod *corev1.Pod) {
	_ = k.api.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
}

// writeStatus writes the status of a pod, unless the pod is gone.
func (k *Kubelet) writeStatus(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, ready bool, state corev1.ContainerState) {
	for {
		now, err := k.api.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || now.UID != pod.UID {
			return
		}
		c := pod.Spec.Containers[0]
		now.Status.Phase = phase
		if now.Status.StartTime == nil {
			now.Status.StartTime = new(metav1.Now())
		}
		now.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: c.Name, Image: c.Image, ImageID: c.Image, State: state, Ready: ready, Started: new(state.Running != nil),
		}}
		setCondition(&now.Status, corev1.PodScheduled, true)
		setCondition(&now.Status, corev1.PodInitialized, true)
		setCondition(&now.Status, corev1.ContainersReady, ready)
		setCondition(&now.Status, corev1.PodReady, ready)
		_, err = k.api.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return
		}
	}
}

func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, is bool) {
	value := corev1.ConditionFalse
	if is {
		value = corev1.ConditionTrue
	}
	at := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if at < 0 {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind})
		at = len(status.Conditions) - 1
	}
	if c := &status.Conditions[at]; c.Status != value {
		c.Status, c.LastTransitionTime = value, metav1.Now()
	}
}

func (s *sandbox) isReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// setReady sets whether the pod is ready, and reports whether this has changed.
func (s *sandbox) setReady(ready bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.ready != ready
	s.ready = ready
	return changed
}
