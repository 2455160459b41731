// Package runtest runs parts of broker and agent for the length of a test, and waits
// for what they do.
package runtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// lookEvery is how often a condition is looked at.
	lookEvery = 20 * time.Millisecond
	// patience is for a machine that has much else to do.
	patience = time.Minute
)

// Runnable is what runs until its context ends, as the parts of a manager do.
type Runnable interface {
	Start(ctx context.Context) error
}

// Start runs a part until stop is called or the test ends, whichever comes first. A
// part that ends with an error fails the test.
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

// Await fails the test if a condition does not hold within a minute; what names it.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), lookEvery, patience, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waited too long for %s", what)
	}
}
