package e2etest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// Environment is a running playground.
type Environment interface {
	// Clusters of the playground.
	Clusters() *e2e.Environment
	// Logs are the files that broker and agents write to.
	Logs() []string
	// Stop ends all processes.
	Stop() error
}

// Stage runs one playground for the tests of a package. It boots with the first test that needs it. Tests use it in
// turn.
type Stage[E Environment] struct {
	// Boot starts the playground; report logs its steps.
	Boot func(ctx context.Context, report func(step string)) (E, error)
	// Ensured are namespaces that every member has.
	Ensured []string
	// Emptied are namespaces whose Deployments end with the test.
	Emptied []string

	once   sync.Once
	env    E
	booted bool
	kept   bool // by the last test that used it
	err    error
}

// advertisedWithin is how long it may take until the broker can choose every cluster.
const advertisedWithin = 2 * time.Minute

// Run runs the tests of a package, clears what the last one kept, and stops the playground.
// It returns the exit code.
func (s *Stage[E]) Run(m *testing.M) int {
	code := m.Run()
	if !s.booted {
		return code
	}
	if s.kept {
		if err := s.clear(); err != nil {
			fmt.Fprintf(os.Stderr, "FAIL: after the last test: %v\n", err)
			code = max(code, 1)
		}
	}
	if s.env.Stop() != nil {
		code = max(code, 1)
	}
	return code
}

// Open returns the playground without any reservations. After the test it releases every reservation, and the test
// fails if a peering left anything behind.
func (s *Stage[E]) Open(t *testing.T) E {
	t.Helper()
	env := s.ready(t)
	s.Clear(t)
	s.kept = false
	s.watchLogs(t, func() { Check(t, s.clear()) })
	return env
}

// Keep returns the playground as the test before left it, and leaves it so for the next one.
func (s *Stage[E]) Keep(t *testing.T) E {
	t.Helper()
	env := s.ready(t)
	s.kept = true
	s.watchLogs(t, func() {})
	return env
}

// Clear gives every reservation back, waits until nothing of a peering is left, and until the
// clusters can be chosen again.
func (s *Stage[E]) Clear(t *testing.T) {
	t.Helper()
	Check(t, s.clear())
	clusters := s.env.Clusters()
	Check(t, clusters.AwaitAdvertised(t.Context(), advertisedWithin))
	Check(t, clusters.AwaitIdle(t.Context(), time.Minute))
}

// ready boots the playground with the first test.
func (s *Stage[E]) ready(t *testing.T) E {
	t.Helper()
	s.once.Do(func() {
		s.env, s.err = s.Boot(context.Background(), func(step string) { t.Log(step) })
		s.booted = s.err == nil
	})
	Check(t, s.err)
	clusters := s.env.Clusters()
	for _, c := range clusters.Members {
		for _, namespace := range s.Ensured {
			Check(t, clusters.EnsureNamespace(t.Context(), c, namespace))
		}
	}
	return s.env
}

// watchLogs fails the test if broker or an agent crashes until it is over. after runs before
// the logs are checked, so that a crash in it counts, too.
func (s *Stage[E]) watchLogs(t *testing.T, after func()) {
	t.Helper()
	said := logSizes(t, s.env.Logs())
	t.Cleanup(func() {
		defer checkLogs(t, said)
		if t.Failed() {
			showLogs(t, said)
		}
		after()
	})
}

// clear does not use a test's context, which ends before its cleanup.
func (s *Stage[E]) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := s.env.Clusters().ReleaseAll(ctx, time.Minute, s.Emptied...); err != nil {
		return err
	}
	return s.env.Clusters().AwaitClean(ctx, time.Minute)
}

// Check ends the test if err is not nil.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// IsRefused reports whether the API server refused a request because of missing rights, a policy or a webhook.
func IsRefused(err error) bool {
	if apierrors.IsForbidden(err) {
		return true
	}
	return apierrors.IsInvalid(err) && (strings.Contains(err.Error(), "ValidatingAdmissionPolicy") || strings.Contains(err.Error(), "admission webhook"))
}

// Refused fails the test unless the API server refused a request.
func Refused(t testing.TB, err error) {
	t.Helper()
	if !IsRefused(err) {
		t.Errorf("got %v, want it forbidden", err)
	}
}
