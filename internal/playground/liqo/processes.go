package liqo

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// programOf returns the path of the program that replaces a container's command.
func (b Binaries) programOf(container *corev1.Container) (string, error) {
	if len(container.Command) == 0 {
		return "", fmt.Errorf("container %q names no command", container.Name)
	}
	switch name := filepath.Base(container.Command[0]); name {
	case "liqo-controller-manager":
		return b.ControllerManager, nil
	case "crd-replicator":
		return b.CRDReplicator, nil
	case "webhook":
		return b.Webhook, nil
	case "virtual-kubelet":
		return b.VirtualKubelet, nil
	default:
		return "", fmt.Errorf("no binary for command %q of container %q", name, container.Name)
	}
}

// specOf returns the process that replaces the pods of a Deployment.
func (l *Liqo) specOf(ctx context.Context, d *appsv1.Deployment) (process.Spec, error) {
	pod := &d.Spec.Template.Spec
	kubeconfig, err := l.cluster.ServiceAccountKubeconfig(ctx, Namespace, pod.ServiceAccountName)
	if err != nil {
		return process.Spec{}, err
	}
	env := map[string]string{
		"CLUSTER_ID": l.cluster.Name(), "POD_NAMESPACE": Namespace, "POD_NAME": d.Name + "-0", "DEPLOYMENT_NAME": d.Name,
	}
	spec, err := l.spec(&pod.Containers[0], env, kubeconfig)
	spec.Name, spec.Layer = d.Name, process.Controller
	if d.Name == webhookService {
		spec.Dir = l.cluster.webhookDir()
		spec.Env = append(spec.Env, "TMPDIR="+spec.Dir)
	}
	return spec, err
}

func (l *Liqo) spec(container *corev1.Container, env map[string]string, kubeconfig string) (process.Spec, error) {
	program, err := l.cluster.Binaries.programOf(container)
	if err != nil {
		return process.Spec{}, err
	}
	for _, e := range container.Env {
		if e.Value != "" {
			env[e.Name] = e.Value
		}
	}
	spec := process.Spec{Path: program, Restart: true, Env: []string{"KUBECONFIG=" + kubeconfig}}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		spec.Env = append(spec.Env, name+"="+env[name])
	}
	for _, arg := range container.Args {
		spec.Args = append(spec.Args, expandVariables(arg, env))
	}
	return spec, nil
}
