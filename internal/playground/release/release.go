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

// waiting is how long anything of a release may take on a busy machine.
const waiting = 90 * time.Second

// Options of a Release.
type Options struct {
	Cluster *controlplane.ControlPlane
	// Chart is the folder of the chart.
	Chart fs.FS
	// Name and Namespace of the release. The namespace is created.
	Name, Namespace string
	// Programs stand in for images, by the names of their containers.
	Programs map[string]Program
	// Backoff is the longest pause before a container that crashed is started again;
	// 5 s if zero.
	Backoff time.Duration
}

// Release is a chart in a cluster. Its methods but Pods are for one caller at a time.
type Release struct {
	options Options
	client  client.Client
	dir     string
	store   *store
	// services by Service and port, and their loopback ports by name and number.
	services map[backend]*service
	ports    map[string]map[int32]int
	// chart is what is installed, for its hooks; nil if nothing is.
	chart *rendered

	mu   sync.Mutex // guards the following
	pods map[string][]*Pod
	// builds stand in for images of a tag; Options.Programs for all others.
	builds map[string]Program
}

// New is a release of which nothing runs.
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

// Provide has a program stand in for the images of a tag, whatever their container. Pods
// that are made from now on run it.
func (r *Release) Provide(tag string, program Program) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.builds[tag] = program
}

// program that stands in for the image of a container.
func (r *Release) program(c *corev1.Container) (Program, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if build, ok := r.builds[c.Image[strings.LastIndexByte(c.Image, ':')+1:]]; ok {
		return build, true
	}
	program, ok := r.options.Programs[c.Name]
	return program, ok
}

// Apply installs or upgrades the release with values, and returns when all of it is
// ready. Pods that change are replaced one after the other.
func (r *Release) Apply(ctx context.Context, values map[string]any) error {
	if err := r.apply(ctx, values); err != nil {
		return fmt.Errorf("release %q in %s: %w", r.options.Name, r.options.Cluster.Name(), err)
	}
	return nil
}

func (r *Release) apply(ctx context.Context, values map[string]any) error {
	chart, err := render(r.options.Chart, r.options.Name, r.options.Namespace, values)
	if err != nil {
		return err
	}
	if err := r.expose(chart); err != nil {
		return err
	}
	if r.store == nil {
		r.store, err = follow(ctx, r.options.Cluster.Lifetime(), r.options.Cluster.RESTConfig(), r.options.Namespace, r.remount)
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
	_, err = r.run(ctx, chart.at(after))
	return err
}

// Values are those of the last Apply, also of another process; nil if there was none.
func (r *Release) Values() (map[string]any, error) {
	former, err := r.former()
	return former.Values, err
}

// remount brings the volumes of all pods up to date. What is missing meanwhile leaves
// a volume as it was.
func (r *Release) remount() {
	for _, p := range r.Pods("") {
		_ = p.mount()
	}
}

// Pods of a Deployment, or of all if the name is empty.
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

// roll makes the pods of a Deployment what it says. New ones start together; those
// that change are replaced one after the other.
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
		p.become(d.Spec.Template)
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// scale ends the pods that are too many, and returns those that stay and those that
// are to be started.
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
