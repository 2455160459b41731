package liqo

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// kubeletSelector selects the Pods in which Liqo runs virtual kubelets.
const kubeletSelector = "offloading.liqo.io/component=virtual-kubelet"

// retry is the pause between attempts to start a virtual kubelet.
const retry = 200 * time.Millisecond

// kubelets does for the pods of virtual kubelets what a kubelet would do: while such a pod is Running, a process runs
// in its place. When a cluster starts with kept state, these pods are already Running, and their processes are
// started again.
type kubelets struct {
	liqo *Liqo
	log  *log.Logger

	mu sync.Mutex // guards the fields below
	// running maps the UID of a pod to the function that stops the pod's process.
	running map[types.UID]context.CancelFunc
}

// LaunchKubelets watches the pods that Liqo creates for virtual kubelets, and runs a process in place of each, until
// ctx ends. It writes failed attempts to logs/virtual-kubelets.log.
func (l *Liqo) LaunchKubelets(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(l.cluster.RESTConfig())
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(l.cluster.Dir(), "logs", "virtual-kubelets.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	k := &kubelets{liqo: l, log: log.New(file, "", log.LstdFlags), running: map[types.UID]context.CancelFunc{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = kubeletSelector
	}))
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.sync(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { k.sync(ctx, obj.(*corev1.Pod)) },
		DeleteFunc: k.forget,
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return nil
}

// sync starts the process of a Running pod, if it has none, and stops the process of a pod that is being deleted.
func (k *kubelets) sync(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		k.end(pod.UID)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.running[pod.UID]; known || pod.Status.Phase != corev1.PodRunning {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	k.running[pod.UID] = cancel
	go k.run(ctx, pod)
}

func (k *kubelets) forget(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		k.end(pod.UID)
	}
}

func (k *kubelets) end(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if cancel, ok := k.running[uid]; ok {
		cancel()
		delete(k.running, uid)
	}
}

// run starts the process of a Pod, tries again until that succeeds, and stops the process when ctx ends.
func (k *kubelets) run(ctx context.Context, pod *corev1.Pod) {
	err := wait.PollUntilContextCancel(ctx, retry, true, func(ctx context.Context) (bool, error) {
		err := k.launch(ctx, pod)
		if err != nil && ctx.Err() == nil {
			k.log.Printf("Pod %s/%s: %v", pod.Namespace, pod.Name, err) // the API server may be down
		}
		return err == nil, nil
	})
	if err != nil {
		return // the Pod was deleted before its process started
	}
	<-ctx.Done()
	k.liqo.cluster.Processes().Remove(pod.Name)
}

func (k *kubelets) launch(ctx context.Context, pod *corev1.Pod) error {
	kubeconfig, err := k.liqo.cluster.ServiceAccountKubeconfig(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	env := map[string]string{"POD_IP": "127.0.0.1", "POD_NAME": pod.Name, "POD_NAMESPACE": pod.Namespace}
	spec, err := k.liqo.spec(&pod.Spec.Containers[0], env, kubeconfig)
	if err != nil {
		return err
	}
	spec.Name, spec.Layer = pod.Name, process.Workload
	spec.Args = append(spec.Args, fmt.Sprintf("--listen-port=%d", port))
	_, err = k.liqo.cluster.Processes().Start(spec)
	return err
}
