package local

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

// Environment variables that the tests heed.
const (
	// dirVariable names the folder that keeps the playground's state; that of the
	// checkout if unset.
	dirVariable = "LRB_PLAYGROUND_DIR"
	// raceVariable, if 1, has broker and agents built with the race detector.
	raceVariable = "LRB_E2E_RACE"
)

// shared is the playground that all tests use, one after the other. It boots with
// the first that asks for it.
var shared struct {
	once sync.Once
	env  *Environment
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.env != nil && shared.env.Stop() != nil && code == 0 {
		code = 1
	}
	os.Exit(code)
}

// playgroundOf returns the playground with nothing in it. When the test is over
// everything is taken away again, and nothing may be left.
func playgroundOf(t *testing.T) *Environment {
	t.Helper()
	shared.once.Do(func() {
		shared.env, shared.err = Up(context.Background(), Options{
			Dir: os.Getenv(dirVariable), Race: os.Getenv(raceVariable) == "1", Backoff: 200 * time.Millisecond,
			Progress: progress.Func(func(step string) { t.Log(step) }),
		})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	env := shared.env
	for _, c := range env.Members {
		check(t, env.EnsureNamespace(t.Context(), c, namespace))
	}
	settle(t, env)
	check(t, env.AwaitAdvertised(t.Context(), patience))
	check(t, env.AwaitIdle(t.Context(), time.Minute))
	said := logSizes(t, env)
	t.Cleanup(func() {
		defer checkLogs(t, said)
		if t.Failed() {
			showLogs(t, said)
		}
		settle(t, env)
	})
	return env
}

// showLogs prints the last of what broker and agents have logged since, without what
// starts and stops with them.
func showLogs(t *testing.T, since map[string]int64) {
	t.Helper()
	const most, width = 60, 600
	for log, size := range since {
		var lines []string
		for line := range strings.Lines(string(logged(t, log, size))) {
			if !chatter.MatchString(line) {
				lines = append(lines, line[:min(len(line), width)])
			}
		}
		t.Logf("%s:\n%s", log, strings.Join(lines[max(0, len(lines)-most):], ""))
	}
}

// chatter is of processes that start and stop, and stack traces.
var chatter = regexp.MustCompile(`^\S+\tINFO\t(Starting|Stopping|Shutdown|All workers|controller-runtime)|^\s|^sigs\.k8s\.io/`)

// logged is what a log has grown by since it had a size.
func logged(t *testing.T, log string, size int64) []byte {
	t.Helper()
	content, err := os.ReadFile(log)
	check(t, err)
	if int64(len(content)) < size { // a new file was begun
		return content
	}
	return content[size:]
}

// logSizes is how much broker and agents have logged so far.
func logSizes(t *testing.T, env *Environment) map[string]int64 {
	t.Helper()
	sizes := map[string]int64{}
	for _, name := range env.Playground.Names() {
		for _, pod := range env.Product.Pods(name) {
			log := pod.Process().Log()
			info, err := os.Stat(log)
			check(t, err)
			sizes[log] = info.Size()
		}
	}
	return sizes
}

// checkLogs fails if broker or an agent has crashed since: they are started again,
// so that nothing else might tell.
func checkLogs(t *testing.T, since map[string]int64) {
	t.Helper()
	for log, size := range since {
		content := logged(t, log, size)
		for _, crash := range []string{"DATA RACE", "panic:", "fatal error:"} {
			if at := bytes.Index(content, []byte(crash)); at >= 0 {
				t.Errorf("%s: %s", log, content[at:min(at+3000, len(content))])
			}
		}
	}
}

func settle(t *testing.T, env *Environment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // the test's own is over
	defer cancel()
	check(t, env.Settle(ctx, time.Minute, namespace, byHandNamespace))
	check(t, env.AwaitClean(ctx, time.Minute))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withGPU fits into berlin alone, twice.
func withGPU() corev1.ResourceList {
	list := small()
	list["nvidia.com/gpu"] = resource.MustParse("1")
	return list
}

// ready asks for resources in a cluster and waits for the virtual node.
func ready(t *testing.T, c *e2e.Cluster, name string, resources corev1.ResourceList) (*agentv1alpha1.ResourceRequest, time.Duration) {
	t.Helper()
	began := time.Now()
	r, err := c.Request(t.Context(), namespace, name, resources)
	check(t, err)
	check(t, c.AwaitReady(t.Context(), r, readyWithin))
	return r, time.Since(began)
}

// run deploys two pods on a request's virtual node, in the request's namespace.
func run(t *testing.T, env *Environment, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest) *e2e.Workload {
	t.Helper()
	w, err := env.Run(t.Context(), c, r)
	check(t, err)
	return w
}
