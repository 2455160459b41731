package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// Program is the program that runs in place of a container's image and its entry point.
type Program struct {
	Path string
	// Args are put before the container's arguments.
	Args []string
}

// Pod is one pod of a Deployment, or of a hook.
type Pod struct {
	release *Release
	// deployment is the name of the Deployment. It is empty for the pod of a hook.
	deployment, name string
	// env is added to the environment of the container.
	env     []string
	process *process.Process
	// kubeconfig is the path of a file with the token of the pod's ServiceAccount. It is empty if the pod has no token.
	kubeconfig string

	// mu guards the following fields. It also guards the folders of the volumes, which are written when their Secrets
	// and ConfigMaps change.
	mu       sync.Mutex
	template corev1.PodTemplateSpec
}

// Name returns the name of the pod. It stays the same after restarts and upgrades.
func (p *Pod) Name() string { return p.name }

// Process returns the process that runs the container.
func (p *Pod) Process() *process.Process { return p.process }

// Kubeconfig returns the path of the file with the pod's credentials.
func (p *Pod) Kubeconfig() string { return p.kubeconfig }

// container returns the pod's only container and its program.
func (p *Pod) container() (*corev1.Container, Program, error) {
	if len(p.template.Spec.Containers) != 1 || len(p.template.Spec.InitContainers) > 0 {
		return nil, Program{}, fmt.Errorf("pod %q has %d containers and %d before them; only pods with one container are supported",
			p.name, len(p.template.Spec.Containers), len(p.template.Spec.InitContainers))
	}
	c := &p.template.Spec.Containers[0]
	program, ok := p.release.program(c)
	if !ok {
		return nil, Program{}, fmt.Errorf("no program replaces container %q", c.Name)
	}
	return c, program, nil
}

func (p *Pod) folder() string { return filepath.Join(p.release.dir, p.name) }

// Volume returns the folder of one of the pod's volumes.
func (p *Pod) Volume(name string) string { return filepath.Join(p.folder(), name) }

// prepare creates the volumes, for which it waits until their sources exist, and gets the token. Methods that are
// called later only read the fields that prepare sets.
func (p *Pod) prepare(ctx context.Context) error {
	if err := p.clear(); err != nil {
		return err
	}
	var missing error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		missing = p.mount()
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("pod %q waits for its volumes: %w: %w", p.name, missing, err)
	}
	p.kubeconfig, err = p.token(ctx)
	return err
}

// clear removes all volumes, because the next container belongs to a new pod.
func (p *Pod) clear() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return os.RemoveAll(p.folder())
}

// setTemplate sets the template that is used when the pod starts next.
func (p *Pod) setTemplate(template corev1.PodTemplateSpec) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.template = template
}

// runs reports whether the pod is running with the given template.
func (p *Pod) runs(template *corev1.PodTemplateSpec) bool {
	return p.process != nil && p.process.Alive() && reflect.DeepEqual(&p.template, template)
}

// mount writes the current content of all volumes. It stops at the first volume whose source is missing, and returns an
// error that names the source.
func (p *Pod) mount() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.template.Spec.Volumes {
		v := &p.template.Spec.Volumes[i]
		files, err := contentsOf(v, p.release.store)
		if err != nil {
			return err
		}
		if !hasSource(v) {
			if err := os.MkdirAll(p.Volume(v.Name), 0o700); err != nil {
				return err
			}
			continue
		}
		if err := replaceFiles(p.Volume(v.Name), files); err != nil {
			return fmt.Errorf("volume %q: %w", v.Name, err)
		}
	}
	return nil
}

// surroundings returns the surroundings of a container of the pod.
func (p *Pod) surroundings(c *corev1.Container) (surroundings, error) {
	s := surroundings{
		pod: p.name, namespace: p.release.options.Namespace, spec: &p.template.Spec, value: p.release.store.value,
		ports: map[int32]int{}, folders: map[string]string{}, services: p.release.ports,
	}
	for _, port := range c.Ports {
		local, err := p.Port(port.Name)
		if err != nil {
			return s, err
		}
		s.ports[port.ContainerPort] = local
	}
	for _, m := range c.VolumeMounts {
		if m.SubPath != "" || m.SubPathExpr != "" {
			return s, fmt.Errorf("container %q mounts a part of volume %q, which would never change", c.Name, m.Name)
		}
		if !slices.ContainsFunc(p.template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			return s, fmt.Errorf("container %q mounts volume %q, which the pod does not have", c.Name, m.Name)
		}
		s.folders[m.Name] = p.Volume(m.Name)
	}
	return s, nil
}

// Port returns the loopback port for the container's port with a name.
func (p *Pod) Port(name string) (int, error) {
	return p.release.options.Cluster.Port(p.release.options.Name + "/" + p.name + "/" + name)
}

// command returns the process that runs in place of the container. If arguments is not nil, it replaces the
// container's arguments.
func (p *Pod) command(arguments []string) (process.Spec, error) {
	c, program, err := p.container()
	if err != nil {
		return process.Spec{}, err
	}
	s, err := p.surroundings(c)
	if err != nil {
		return process.Spec{}, err
	}
	env, known, err := s.environment(c)
	if err != nil {
		return process.Spec{}, err
	}
	if arguments == nil {
		if arguments, err = s.arguments(c, known); err != nil {
			return process.Spec{}, err
		}
	}
	if p.kubeconfig != "" {
		env = append(env, "KUBECONFIG="+p.kubeconfig)
	}
	return process.Spec{
		Name: p.name, Path: program.Path, Args: slices.Concat(program.Args, arguments),
		Env: slices.Concat(env, p.env), Layer: process.Controller, Restart: true, Backoff: p.release.options.Backoff,
	}, nil
}

// token returns the path of a kubeconfig with a token of the pod's ServiceAccount. It returns "" if the pod gets no
// token.
func (p *Pod) token(ctx context.Context) (string, error) {
	if mount := p.template.Spec.AutomountServiceAccountToken; mount != nil && !*mount {
		return "", nil
	}
	account := p.template.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	return p.release.options.Cluster.ServiceAccountKubeconfig(ctx, p.release.options.Namespace, account)
}

// start runs the container and returns when it is ready.
func (p *Pod) start(ctx context.Context) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	spec, err := p.command(nil)
	if err != nil {
		return err
	}
	if p.process, err = p.release.options.Cluster.Processes().Start(spec); err != nil {
		return err
	}
	if err := p.awaitReady(ctx); err != nil {
		return err
	}
	return p.release.connect(p, true)
}

// stop ends the container in the same order as a kubelet: first no new connections reach it, then it gets SIGTERM.
func (p *Pod) stop() error {
	err := p.release.connect(p, false)
	if p.process != nil {
		p.process.Stop()
	}
	return err
}

// Restart replaces the pod by a pod with env added to its environment. It returns when the new pod is ready.
func (p *Pod) Restart(ctx context.Context, env ...string) error {
	if err := p.stop(); err != nil {
		return err
	}
	p.env = env
	return p.start(ctx)
}

func (p *Pod) awaitReady(ctx context.Context) error {
	probe, err := p.readiness()
	if err != nil || probe == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.process.Await(ctx, probe)
}

// readiness returns the readiness probe of the container. It returns nil if the container has no probe.
func (p *Pod) readiness() (func(context.Context) error, error) {
	c, _, err := p.container()
	if err != nil {
		return nil, err
	}
	probe := c.ReadinessProbe
	if probe == nil {
		// Without a readiness probe, the pod would be ready at once. Therefore its liveness probe is used instead.
		probe = c.LivenessProbe
	}
	if probe == nil {
		return nil, nil
	}
	if probe.HTTPGet == nil {
		return nil, fmt.Errorf("container %q has a probe that is not supported", c.Name)
	}
	port, err := p.portOf(c, probe.HTTPGet.Port)
	if err != nil {
		return nil, err
	}
	return process.Answers(fmt.Sprintf("http://%s:%d%s", address, port, probe.HTTPGet.Path)), nil
}

// portOf returns the loopback port for a container's port, which is given by its name or number.
func (p *Pod) portOf(c *corev1.Container, port intstr.IntOrString) (int, error) {
	for _, declared := range c.Ports {
		if declared.Name == port.StrVal && port.Type == intstr.String ||
			declared.ContainerPort == port.IntVal && port.Type == intstr.Int {
			return p.Port(declared.Name)
		}
	}
	return 0, fmt.Errorf("container %q has no port %q", c.Name, port.String())
}

// Exec runs the container's program once more with other arguments, as "kubectl exec" would. It returns the output.
// If the program fails, the error contains the output.
func (p *Pod) Exec(ctx context.Context, arguments ...string) (string, error) {
	cmd, err := p.Command(ctx, arguments...)
	if err != nil {
		return "", err
	}
	return outputOf(cmd)
}

// Command returns the command that Exec runs.
func (p *Pod) Command(ctx context.Context, arguments ...string) (*exec.Cmd, error) {
	spec, err := p.command(append([]string{}, arguments...))
	if err != nil {
		return nil, err
	}
	return commandOf(ctx, spec), nil
}

func commandOf(ctx context.Context, spec process.Spec) *exec.Cmd {
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, spec.Env...)
	return cmd
}

// runProgram runs a program until it ends, and returns its output.
func runProgram(ctx context.Context, spec process.Spec) (string, error) {
	return outputOf(commandOf(ctx, spec))
}

func outputOf(cmd *exec.Cmd) (string, error) {
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(problems.String() + out.String())
		return "", errors.Join(fmt.Errorf("%s %s: %w", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), err), errors.New(said))
	}
	return out.String(), nil
}
