// Package runtest lets a test run parts of broker and agent, wait for their effects, and end at the first error.
package runtest

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lookEvery is the interval between checks of a condition.
	lookEvery = 20 * time.Millisecond
	// awaitTimeout is the timeout of Await. It is long enough for a busy machine.
	awaitTimeout = time.Minute
	// eventuallyTimeout is the timeout of Eventually, which waits for other processes.
	eventuallyTimeout = 5 * time.Minute
)

// Runnable is a part of a program that runs until its context ends, like the runnables of a
// manager.
type Runnable interface {
	Start(ctx context.Context) error
}

// Start runs a part until stop is called or the test ends, whichever comes first. The test fails if
// the part returns an error.
func Start(t testing.TB, part Runnable) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- part.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%T: %v", part, err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Await waits until holds returns true. It fails the test after a minute. what describes the
// condition in the message of the failure.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), lookEvery, awaitTimeout, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waited too long for %s", what)
	}
}

// Eventually waits until check returns no error. It fails the test with the last error after five minutes.
func Eventually(t testing.TB, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), lookEvery, eventuallyTimeout, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}

// T is what the tests of the packages testing and rapid have in common.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Check ends the test if err is an error.
func Check(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// CompareGolden compares a text with a golden file. If update is true, it first writes the text to the file.
func CompareGolden(t testing.TB, update bool, file, got string) {
	t.Helper()
	if update {
		Check(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	Check(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update writes it:\n%s", file, diff)
	}
}
