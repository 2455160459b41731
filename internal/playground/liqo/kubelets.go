package liqo

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// kubeletSelector finds the pods in which Liqo runs virtual kubelets.
const kubeletSelector = "offloading.liqo.io/component=virtual-kubelet"

// kubelets plays the kubelet for the pods of virtual kubelets: while such a pod is
// Running, so is a process.
type kubelets struct {
	liqo *Liqo

	// mu guards the following.
	mu sync.Mutex
	// running processes by pod UID.
	running map[string]*process.Process
}

func newKubelets(l *Liqo) *kubelets {
	return &kubelets{liqo: l, running: map[string]*process.Process{}}
}

// start follows the pods until ctx is done.
func (k *kubelets) start(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(k.liqo.cluster.RESTConfig())
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = kubeletSelector
	}))
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.follow(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { k.follow(ctx, obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			k.stop(obj.(*corev1.Pod))
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return nil
}

func (k *kubelets) follow(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		k.stop(pod)
		return
	}
	if pod.Status.Phase != corev1.PodRunning {
		return
	}
	k.mu.Lock()
	_, known := k.running[string(pod.UID)]
	if !known {
		k.running[string(pod.UID)] = nil
	}
	k.mu.Unlock()
	if known {
		return
	}
	go k.run(ctx, pod)
}

// run tries until it works or the pod goes: the API server may be down just now.
func (k *kubelets) run(ctx context.Context, pod *corev1.Pod) {
	for ctx.Err() == nil {
		p, err := k.launch(ctx, pod)
		k.mu.Lock()
		_, wanted := k.running[string(pod.UID)]
		if err == nil && wanted {
			k.running[string(pod.UID)] = p
		}
		k.mu.Unlock()
		switch {
		case err == nil && !wanted:
			k.liqo.cluster.Processes().Remove(p.Name())
			return
		case err == nil || !wanted:
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (k *kubelets) launch(ctx context.Context, pod *corev1.Pod) (*process.Process, error) {
	kubeconfig, err := k.liqo.cluster.ServiceAccountKubeconfig(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return nil, err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	env := map[string]string{"POD_IP": "127.0.0.1", "POD_NAME": pod.Name, "POD_NAMESPACE": pod.Namespace}
	spec, err := k.liqo.spec(&pod.Spec.Containers[0], env, kubeconfig)
	if err != nil {
		return nil, err
	}
	spec.Name, spec.Layer = pod.Name, process.Workload
	spec.Args = append(spec.Args, fmt.Sprintf("--listen-port=%d", port))
	return k.liqo.cluster.Processes().Start(spec)
}

func (k *kubelets) stop(pod *corev1.Pod) {
	k.mu.Lock()
	p := k.running[string(pod.UID)]
	delete(k.running, string(pod.UID))
	k.mu.Unlock()
	if p != nil {
		go k.liqo.cluster.Processes().Remove(p.Name())
	}
}
