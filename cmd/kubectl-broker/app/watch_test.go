package app

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// background is a command that runs until the test ends it.
type background struct {
	t     *testing.T
	lines chan string
	end   context.CancelFunc
	code  chan int
	seen  []string
}

// startCommand runs a command whose output and talk the test reads line by line. now returns the time.
func startCommand(t *testing.T, now func() time.Time, args ...string) *background {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	b := &background{t: t, lines: make(chan string, 100), end: cancel, code: make(chan int, 1)}
	go func() {
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: writer, ErrOut: writer}
		b.code <- runAt(ctx, streams, append([]string{"kubectl-broker"}, args...), now)
		_ = writer.Close()
	}()
	go func() {
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			b.lines <- scanner.Text()
		}
	}()
	return b
}

// await returns once a line contains the text.
func (b *background) await(text string) {
	b.t.Helper()
	timeout := time.After(hangLimit)
	for {
		select {
		case line := <-b.lines:
			b.seen = append(b.seen, line)
			if strings.Contains(line, text) {
				return
			}
		case <-timeout:
			b.t.Fatalf("no line contains %q:\n%s", text, strings.Join(b.seen, "\n"))
		}
	}
}

// stop ends the command as Ctrl-C does.
func (b *background) stop() {
	b.t.Helper()
	b.end()
	if code := <-b.code; code != exitDone {
		b.t.Errorf("the interrupted command exits with %d", code)
	}
}

// The API server ends every watch after some minutes, and a change may fall between two of them.
func TestWatchReportsChangesBetweenTwoWatches(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := agentv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	changed := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "try", Name: "changed"}}
	c := &connection{WithWatch: fake.NewClientBuilder().WithScheme(scheme).WithObjects(changed).Build()}
	ended, events := watch.NewEmptyWatch(), make(chan happened)
	go c.forwardEvents(t.Context(), &agentv1alpha1.ResourceRequestList{}, "", ended, events)
	select {
	case e := <-events:
		if name := e.object.(*agentv1alpha1.ResourceRequest).Name; e.kind != watch.Modified || name != changed.Name {
			t.Errorf("%s of %q, want %s of %q", e.kind, name, watch.Modified, changed.Name)
		}
	case <-time.After(hangLimit):
		t.Error("the second watch reports nothing")
	}
}

func testWatch(t *testing.T, kubeconfig string) {
	flags := []string{"--kubeconfig", kubeconfig, "--context", "rome", "-n", "try"}
	reserve := func(name string) {
		t.Helper()
		if code, _, talk := run(t, append([]string{"reserve", name, "--cpu", "1", "--memory", "1Gi"}, flags...)...); code != exitDone {
			t.Fatalf("reserve: exit code %d, %s", code, talk)
		}
	}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	watched := startCommand(t, func() time.Time { return noon }, append([]string{"watch", "watched"}, flags...)...)
	watched.await(`watching the cluster of context "rome"`)
	queue := startCommand(t, time.Now, append([]string{"queue", "--watch"}, flags...)...)
	queue.await("nothing waits")
	reserve("another")
	reserve("watched")
	watched.await("try rreq/watched  made Pending")
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	c, err := client.New(configOf(t, kubeconfig, "rome"), client.Options{Scheme: scheme})
	runtest.Check(t, err)
	rr := &agentv1alpha1.ResourceRequest{}
	for _, phase := range []agentv1alpha1.ResourceRequestPhase{agentv1alpha1.RequestQueued, agentv1alpha1.RequestActive, agentv1alpha1.RequestFailed} {
		runtest.Check(t, c.Get(t.Context(), client.ObjectKey{Namespace: "try", Name: "watched"}, rr))
		ready := metav1.Condition{Type: agentv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: string(phase), Message: "as the broker says"}
		meta.SetStatusCondition(&rr.Status.Conditions, ready)
		rr.Status.Phase, rr.Status.Message = phase, "the request is "+string(phase)
		runtest.Check(t, c.Status().Update(t.Context(), rr))
	}
	runtest.Check(t, c.Delete(t.Context(), rr))
	watched.await("is gone")
	compareGolden(t, "watch.txt", strings.Join(watched.seen, "\n")+"\n") // no change of another request
	queue.await("nothing waits")
	watched.stop()
	queue.stop()
}
