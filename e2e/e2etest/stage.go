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
	// Clusters returns the clusters of the playground.
	Clusters() *e2e.Environment
	// Logs returns the paths of the log files of the broker and the agents.
	Logs() []string
	// Stop ends all processes.
	Stop() error
}

// Stage runs one playground for all tests of a package. The playground starts with the first test that needs it.
// Tests use it one after the other.
type Stage[E Environment] struct {
	// Boot starts the playground. It calls report for each step.
	Boot func(ctx context.Context, report func(step string)) (E, error)
	// Ensured are the names of namespaces that Stage creates in every member.
	Ensured []string
	// Emptied are the names of namespaces whose Deployments are deleted before and after each test that
	// calls Open.
	Emptied []string

	once   sync.Once
	env    E
	booted bool
	kept   bool // by the last test that used it
	err    error
	// failures describe the failed tests.
	failures []string
}

// advertisedWithin is how long it may take until the broker can choose every cluster again.
const advertisedWithin = 4 * time.Minute

// clearedWithin is how long it may take until all reservations have ended and left nothing.
const clearedWithin = 5 * time.Minute

// Run runs the tests of a package, removes what the last test has kept, and stops the playground. It returns the
// exit code.
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
	for _, summary := range s.failures {
		fmt.Fprintln(os.Stderr, summary)
	}
	return code
}

// Open returns the playground without any reservations. After the test, it deletes all reservations. If a peering
// has left anything behind, the test fails.
func (s *Stage[E]) Open(t *testing.T) E {
	t.Helper()
	env := s.ready(t)
	s.Clear(t)
	s.kept = false
	s.watchLogs(t, func() { Check(t, s.clear()) })
	return env
}

// Keep returns the playground in the state in which the previous test left it. The next test finds it in the state
// in which this test leaves it.
func (s *Stage[E]) Keep(t *testing.T) E {
	t.Helper()
	env := s.ready(t)
	s.kept = true
	s.watchLogs(t, func() {})
	return env
}

// Clear ends all reservations. It then waits until nothing of any peering is left, and until the broker can choose
// all clusters again.
func (s *Stage[E]) Clear(t *testing.T) {
	t.Helper()
	Check(t, s.clear())
	clusters := s.env.Clusters()
	Check(t, clusters.AwaitAdvertised(t.Context(), advertisedWithin))
	Check(t, clusters.AwaitIdle(t.Context(), advertisedWithin))
}

// ready starts the playground if this is the first test, and creates the namespaces in Ensured.
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

// watchLogs fails the test if the broker or an agent crashes before the end of the test. At the end of the test, it
// calls the function after and then checks the logs, so that it also notices a crash during that call.
func (s *Stage[E]) watchLogs(t *testing.T, after func()) {
	t.Helper()
	said := logSizes(t, s.env.Logs())
	t.Cleanup(func() {
		var state string
		defer func() { s.showFailure(t, state) }()
		defer checkLogs(t, said)
		if t.Failed() {
			showLogs(t, said)
			state = describeState(s.env.Clusters())
		}
		after()
	})
}

// clear ends all reservations, and waits until nothing of any peering is left. It does not use the context of a test,
// because that context ends before the test's cleanup.
func (s *Stage[E]) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), clearedWithin)
	defer cancel()
	if err := s.env.Clusters().ReleaseAll(ctx, clearedWithin, s.Emptied...); err != nil {
		return err
	}
	return s.env.Clusters().AwaitClean(ctx, clearedWithin)
}

// Check stops the test with a failure if err is not nil.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		noteError(t, err)
		t.Fatal(err)
	}
}

// IsRefused reports whether the API server refused a request because of missing rights, an admission policy or a
// webhook.
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
