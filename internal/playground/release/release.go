package release

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
)

// timeout is how long each step of a release may take on a busy machine.
const timeout = 5 * time.Minute

// Options are the options of a Release.
type Options struct {
	Cluster *controlplane.ControlPlane
	// Chart holds the files of the chart.
	Chart fs.FS
	// Name and Namespace are the name and the namespace of the release. Apply creates the namespace.
	Name, Namespace string
	// Programs maps the name of a container to the program that replaces its image.
	Programs map[string]Program
	// Backoff is the longest pause before a crashed container is restarted. Default: 5 s.
	Backoff time.Duration
}

// Release is a chart that is installed in a cluster. Its methods must not be called concurrently, except Pods.
type Release struct {
	options Options
	client  client.Client
	dir     string
	store   *store
	// services holds a listener for each port of a Service. ports maps the name and the port number of a Service to a
	// loopback port.
	services map[backend]*service
	ports    map[string]map[int32]int
	// chart is the installed chart, which contains the hooks. It is nil if no chart is installed.
	chart *rendered

	mu   sync.Mutex // guards the fields below
	pods map[string][]*Pod
	// builds maps a tag to the program that replaces all images with that tag. Options.Programs replaces all other
	// images.
	builds map[string]Program
}

// New returns a release that is not installed yet.
func New(o Options) (*Release, error) {
	cl, err := client.New(o.Cluster.RESTConfig(), client.Options{})
	if err != nil {
		return nil, err
	}
	return &Release{
		options: o, client: cl, dir: filepath.Join(o.Cluster.Dir(), "releases", o.Name),
		services: map[backend]*service{}, pods: map[string][]*Pod{}, builds: map[string]Program{},
	}, nil
}

// Provide sets the program that replaces all images with a tag. It applies to pods that are created later.
func (r *Release) Provide(tag string, program Program) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.builds[tag] = program
}

// program returns the program that replaces a container. It returns false if there is none.
func (r *Release) program(c *corev1.Container) (Program, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if build, ok := r.builds[c.Image[strings.LastIndexByte(c.Image, ':')+1:]]; ok {
		return build, true
	}
	program, ok := r.options.Programs[c.Name]
	return program, ok
}

// Apply installs or upgrades the release. It returns when the whole release is ready. Pods whose template has changed
// are replaced one after the other.
func (r *Release) Apply(ctx context.Context, values map[string]any) error {
	if err := r.apply(ctx, values); err != nil {
		return fmt.Errorf("release %q in %s: %w", r.options.Name, r.options.Cluster.Name(), err)
	}
	return nil
}

func (r *Release) apply(ctx context.Context, values map[string]any) error {
	chart, err := renderChart(r.options.Chart, r.options.Name, r.options.Namespace, values)
	if err != nil {
		return err
	}
	if err := r.exposeServices(chart); err != nil {
		return err
	}
	if r.store == nil {
		r.store, err = openStore(ctx, r.options.Cluster.Lifetime(), r.options.Cluster.RESTConfig(), r.options.Namespace, r.remount)
		if err != nil {
			return err
		}
	}
	after, err := r.install(ctx, chart, values)
	if err != nil {
		return err
	}
	r.chart = chart
	var group errgroup.Group
	for i := range chart.deployments {
		group.Go(func() error { return r.roll(ctx, &chart.deployments[i]) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := r.awaitInjected(ctx, chart); err != nil {
		return err
	}
	_, err = r.runHooks(ctx, chart.hooksAt(after))
	return err
}

// Values returns the values of the last Apply, also if another process called it. It returns nil if there was none.
func (r *Release) Values() (map[string]any, error) {
	former, err := r.previous()
	return former.Values, err
}

// remount updates the volumes of all pods. If the source of a volume does not exist, the volume stays unchanged.
func (r *Release) remount() {
	for _, p := range r.Pods("") {
		_ = p.mount()
	}
}

// Pods returns the pods of a Deployment, or all pods if the name is empty, sorted by name.
func (r *Release) Pods(deployment string) []*Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Pod
	for name, pods := range r.pods {
		if deployment == "" || deployment == name {
			all = append(all, pods...)
		}
	}
	slices.SortFunc(all, func(a, b *Pod) int { return strings.Compare(a.name, b.name) })
	return all
}

// roll updates the pods of a Deployment to its template. It starts all new pods at once, and replaces changed pods
// one after the other.
func (r *Release) roll(ctx context.Context, d *appsv1.Deployment) error {
	kept, fresh, err := r.scale(d)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, p := range fresh {
		group.Go(func() error { return p.start(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range kept {
		if p.runs(&d.Spec.Template) {
			continue
		}
		if err := p.stop(); err != nil {
			return err
		}
		p.setTemplate(d.Spec.Template)
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// scale stops the pods that are too many. It returns the pods that stay, and the pods to start.
func (r *Release) scale(d *appsv1.Deployment) (kept, fresh []*Pod, err error) {
	wanted := 1
	if d.Spec.Replicas != nil {
		wanted = int(*d.Spec.Replicas)
	}
	kept = r.Pods(d.Name)
	for len(kept) > wanted {
		last := kept[len(kept)-1]
		if err := last.stop(); err != nil {
			return nil, nil, err
		}
		kept = kept[:len(kept)-1]
	}
	for i := len(kept); i < wanted; i++ {
		fresh = append(fresh, &Pod{release: r, deployment: d.Name, name: fmt.Sprintf("%s-%d", d.Name, i), template: d.Spec.Template})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[d.Name] = slices.Concat(kept, fresh)
	return kept, fresh, nil
}
