// Package kueue runs Kueue's own release as a local process in one of the playground's clusters. It renders Kueue's
// chart and applies the objects, except those that need a pod. The process uses the token of the chart's
// ServiceAccount, and so has the rights that the chart grants.
package kueue

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Names of objects in Kueue's chart.
const (
	namespace      = "kueue-system"
	manager        = "kueue-controller-manager" // its Deployment and ServiceAccount
	managerConfig  = "kueue-manager-config"
	configKey      = "controller_manager_config.yaml"
	webhookService = "kueue-webhook-service"
	webhookSecret  = "kueue-webhook-server-cert"
)

// timeout is how long Kueue may take to start on a busy machine.
const timeout = 5 * time.Minute

// installation is Kueue in one cluster.
type installation struct {
	cluster *controlplane.ControlPlane
	client  client.Client
	// dir is the folder of Kueue's configuration and certificate.
	dir string
	// webhook and health are the ports on which Kueue listens.
	webhook, health int
	// objects are the CRD of ProvisioningRequest and the objects of the chart, without those that need a pod.
	objects []manifest.Object
	// container is the container that the process replaces, and config is the configuration file that it reads.
	container corev1.Container
	config    string
}

// Start builds Kueue, installs it and the CRD of ProvisioningRequest in a cluster, and runs it until the cluster stops.
// It returns when Kueue answers.
func Start(ctx context.Context, cluster *controlplane.ControlPlane, tools *toolchain.Toolchain) (*process.Process, error) {
	if err := tools.Ensure(ctx, toolchain.Kueue); err != nil {
		return nil, err
	}
	i := &installation{cluster: cluster, dir: filepath.Join(cluster.Dir(), "kueue")}
	for name, port := range map[string]*int{"kueue-webhook": &i.webhook, "kueue-health": &i.health} {
		var err error
		if *port, err = cluster.Port(name); err != nil {
			return nil, err
		}
	}
	if err := i.renderChart(ctx, tools); err != nil {
		return nil, fmt.Errorf("chart of Kueue: %w", err)
	}
	if err := i.installObjects(ctx); err != nil {
		return nil, fmt.Errorf("installing Kueue in %s: %w", cluster.Name(), err)
	}
	p, err := i.startManager(ctx, tools.Path(toolchain.Kueue))
	if err != nil {
		return nil, fmt.Errorf("running Kueue in %s: %w", cluster.Name(), err)
	}
	return p, nil
}

// chartValues returns the values for Kueue's chart. They turn on only jobs.
func (i *installation) chartValues() (map[string]any, error) {
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration",
		"health":         map[string]any{"healthProbeBindAddress": fmt.Sprintf("127.0.0.1:%d", i.health)},
		"metrics":        map[string]any{"bindAddress": "0"},
		"webhook":        map[string]any{"host": "127.0.0.1", "port": i.webhook, "certDir": i.dir},
		"leaderElection": map[string]any{"leaderElect": false},
		"integrations":   map[string]any{"frameworks": []string{"batch/job"}},
	})
	return map[string]any{
		"managerConfig": map[string]any{"controllerManagerConfigYaml": string(config)},
		// The server of this API keeps its certificate in the folder /visibility.
		"controllerManager": map[string]any{"featureGates": []any{map[string]any{"name": "VisibilityOnDemand", "enabled": false}}},
	}, err
}

// renderChart renders Kueue's chart.
func (i *installation) renderChart(ctx context.Context, tools *toolchain.Toolchain) error {
	source, err := tools.ModuleDir(ctx, toolchain.Kueue.Module, "sigs.k8s.io/kueue")
	if err != nil {
		return err
	}
	loaded, err := chart.LoadDir(filepath.Join(source, "charts", "kueue"))
	if err != nil {
		return err
	}
	values, err := i.chartValues()
	if err != nil {
		return err
	}
	rendered, err := chart.Render(loaded, chart.Release{Name: "kueue", Namespace: namespace, Values: values})
	if err != nil {
		return err
	}
	if i.objects, err = provisioningRequestCRD(ctx, tools); err != nil {
		return err
	}
	i.objects = append(i.objects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}})
	for _, obj := range append(rendered.CRDs, rendered.Objects...) {
		if err := i.addObject(obj); err != nil {
			return fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	if i.config == "" || len(i.container.Args) == 0 {
		return fmt.Errorf("%q has no configuration or no container", source)
	}
	return nil
}

// provisioningRequestCRD returns the CRD of ProvisioningRequest that Kueue was built for. Kueue serves ProvisioningRequests
// only if this CRD exists before Kueue starts.
func provisioningRequestCRD(ctx context.Context, tools *toolchain.Toolchain) ([]manifest.Object, error) {
	dir, err := tools.ModuleDir(ctx, toolchain.Kueue.Module, "k8s.io/autoscaler/cluster-autoscaler/apis")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "config", "crd", "autoscaling.x-k8s.io_provisioningrequests.yaml"))
	if err != nil {
		return nil, err
	}
	return manifest.Read(text)
}

// addObject adds one object of the chart to the installation, and makes it refer to this machine.
func (i *installation) addObject(obj manifest.Object) error {
	switch {
	case obj.GetKind() == "Deployment":
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &d); err != nil {
			return err
		}
		i.container = d.Spec.Template.Spec.Containers[0]
		return nil
	case obj.GetKind() == "APIService":
		return nil // of the API that is off
	case obj.GetKind() == "ConfigMap" && obj.GetName() == managerConfig:
		i.config, _, _ = unstructured.NestedString(obj.Object, "data", configKey)
	case obj.GetKind() == "Service" && obj.GetName() == webhookService:
		// API servers resolve a Service of this type themselves, without kube-proxy.
		obj.Object["spec"] = map[string]any{"type": string(corev1.ServiceTypeExternalName), "externalName": "localhost"}
	default:
		i.pointToWebhook(obj.Object)
	}
	i.objects = append(i.objects, obj)
	return nil
}

// pointToWebhook sets the port in all references to the webhook's Service, which are in webhook configurations and in
// CRDs.
func (i *installation) pointToWebhook(value any) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			i.pointToWebhook(element)
		}
	case map[string]any:
		if _, isReference := v["path"]; isReference && v["name"] == webhookService {
			v["port"] = int64(i.webhook)
		}
		for _, element := range v {
			i.pointToWebhook(element)
		}
	}
}

func (i *installation) installObjects(ctx context.Context) error {
	var err error
	if i.client, err = client.New(i.cluster.RESTConfig(), client.Options{}); err != nil {
		return err
	}
	return manifest.Install(ctx, i.client, i.objects)
}

func (i *installation) startManager(ctx context.Context, program string) (*process.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := os.MkdirAll(i.dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(i.dir, configKey)
	if err := os.WriteFile(file, []byte(i.config), 0o600); err != nil {
		return nil, err
	}
	kubeconfig, err := i.cluster.ServiceAccountKubeconfig(ctx, namespace, manager)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, arg := range i.container.Args {
		args = append(args, strings.ReplaceAll(arg, "/"+configKey, file))
	}
	p, err := i.cluster.Processes().Start(process.Spec{
		Name: "kueue", Path: program, Args: args, Env: []string{"KUBECONFIG=" + kubeconfig}, Layer: process.Controller, Restart: true,
	})
	if err != nil {
		return nil, err
	}
	if err := i.mountCertificate(ctx); err != nil {
		return nil, err
	}
	return p, p.Await(ctx, process.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", i.health)))
}

// mountCertificate writes the webhook's certificate into files, as a kubelet does. Kueue itself creates the certificate
// in a Secret, and waits for the files.
func (i *installation) mountCertificate(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := i.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: webhookSecret}, secret)
		return err == nil && len(secret.Data[corev1.TLSCertKey]) > 0, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("no certificate in Secret %q: %w", webhookSecret, err)
	}
	for _, name := range []string{corev1.TLSPrivateKeyKey, corev1.TLSCertKey} { // Kueue waits for the second
		if err := os.WriteFile(filepath.Join(i.dir, name), secret.Data[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}
