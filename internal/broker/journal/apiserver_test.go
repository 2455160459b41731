package journal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestAPIServer runs the tests that need a real API server.
func TestAPIServer(t *testing.T) {
	cluster := controlplanetest.Start(t)
	t.Run("conformance", func(t *testing.T) {
		journaltest.Conformance(t, func(t *testing.T) journal.Store { return newStore(t, cluster.RESTConfig()) })
	})
	t.Run("a busy writer is fenced off", func(t *testing.T) {
		store := newStore(t, cluster.RESTConfig())
		former := startService(t, store, time.Minute)
		former.work(t, 8)
		former.await(t, 200)
		_, found, err := journal.Open(t.Context(), store, name, journal.Options{})
		runtest.Check(t, err)
		former.stop()
		former.wantAcknowledged(t, found.Records)
	})
	t.Run("nobody keeps account of who set which field of the tail", func(t *testing.T) {
		namespace := newNamespace(t, cluster.RESTConfig())
		store, err := journal.NewConfigMaps(cluster.RESTConfig(), namespace)
		runtest.Check(t, err)
		if _, _, err := journal.Open(t.Context(), store, name, journal.Options{}); err != nil {
			t.Fatal(err)
		}
		stored, err := kubernetes.NewForConfigOrDie(cluster.RESTConfig()).CoreV1().ConfigMaps(namespace).Get(t.Context(), name+"-journal-tail", metav1.GetOptions{})
		runtest.Check(t, err)
		if len(stored.ManagedFields) > 0 {
			t.Errorf("managed fields %v: the API server works them out at every append", stored.ManagedFields)
		}
	})
	for title, settle := range map[string]time.Duration{
		"kill -9 in the middle of the traffic, waited for":                time.Minute,
		"kill -9 in the middle of the traffic, too long to be waited for": 100 * time.Millisecond,
	} {
		t.Run(title, func(t *testing.T) { testKill(t, cluster, settle) })
	}
}

func testKill(t *testing.T, cluster *controlplane.ControlPlane, settle time.Duration) {
	store := newStore(t, cluster.RESTConfig())
	s := startService(t, store, settle)
	s.work(t, 8)
	for range 2 {
		s.await(t, 200)
		runtest.Check(t, cluster.KillAPIServer())
		runtest.Check(t, cluster.StartAPIServer(t.Context()))
	}
	s.await(t, 200)
	s.stop()
	_, found, err := journal.Open(t.Context(), store, name, journal.Options{})
	runtest.Check(t, err)
	s.wantAcknowledged(t, found.Records)
	if _, err := journal.Verify(t.Context(), store, name, journal.Options{}); err != nil {
		t.Error(err)
	}
	// An outage that is shorter than OutcomeTimeout need not end a term.
	if opened := s.opened.Load(); opened < 3 && settle < time.Second {
		t.Errorf("the journal was opened %d times, want once and after each of two outages", opened)
	}
}

// service keeps a journal open, as the broker does, until it is fenced off.
type service struct {
	store  journal.Store
	settle time.Duration
	// present is the current term. It is replaced whenever the journal is opened again.
	present atomic.Pointer[term]
	opened  atomic.Int64
	// count is the number of acknowledged records. progress has a value if count grew since the
	// last receive.
	count    atomic.Int64
	progress chan struct{}
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu           sync.Mutex
	acknowledged map[uint64]string
	refused      map[string]error
}

// term is the time between an Open and the failure that ends it.
type term struct {
	journal *journal.Journal
	over    chan struct{}
}

func startService(t *testing.T, store journal.Store, settle time.Duration) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &service{
		store: store, settle: settle, cancel: cancel, progress: make(chan struct{}, 1),
		acknowledged: map[uint64]string{}, refused: map[string]error{},
	}
	t.Cleanup(s.stop)
	first := s.open(ctx)
	if first == nil {
		t.Fatal("the journal does not open")
	}
	s.wg.Go(func() { s.keepOpen(ctx, first) })
	return s
}

// open opens the journal and makes it the present term. It tries again every 50 ms until it
// succeeds, and returns nil if ctx ends before.
func (s *service) open(ctx context.Context) *term {
	for ctx.Err() == nil {
		j, _, err := journal.Open(ctx, s.store, name, journal.Options{OutcomeTimeout: s.settle})
		if err == nil {
			present := &term{journal: j, over: make(chan struct{})}
			s.present.Store(present)
			s.opened.Add(1)
			return present
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *service) keepOpen(ctx context.Context, present *term) {
	for present != nil {
		err := present.journal.Run(ctx)
		if err == nil || errors.Is(err, journal.ErrFenced) {
			s.cancel()
			close(present.over)
			return
		}
		over := present.over
		present = s.open(ctx)
		close(over)
	}
}

// work starts goroutines that append, each one record at a time, until the service stops.
func (s *service) work(t *testing.T, appenders int) {
	for range appenders {
		s.wg.Go(func() {
			for {
				present := s.present.Load()
				text := fmt.Sprintf(`{"record":%d}`, unique.Add(1))
				c := present.journal.Append([]byte(text))
				if err := c.Wait(t.Context()); err != nil {
					s.note(text, 0, err)
					<-present.over
					if s.present.Load() == present {
						return
					}
					continue
				}
				s.note(text, c.Position(), nil)
			}
		})
	}
}

func (s *service) note(text string, position uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.refused[text] = err
		return
	}
	s.acknowledged[position] = text
	s.count.Add(1)
	select {
	case s.progress <- struct{}{}:
	default:
	}
}

// await waits until the service has acknowledged the given number of further records.
func (s *service) await(t *testing.T, more int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for want := s.count.Load() + more; s.count.Load() < want; {
		select {
		case <-s.progress:
		case <-ctx.Done():
			t.Fatalf("%d records acknowledged, want %d", s.count.Load(), want)
		}
	}
}

func (s *service) stop() {
	s.cancel()
	s.wg.Wait()
}

// wantAcknowledged checks that every acknowledged record is stored at its acknowledged position,
// and that no record is stored which was refused with ErrUnavailable.
func (s *service) wantAcknowledged(t *testing.T, stored []journal.Record) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := map[uint64]string{}
	for _, r := range stored {
		texts[r.Position] = string(r.Data)
		if err := s.refused[string(r.Data)]; errors.Is(err, journal.ErrUnavailable) {
			t.Errorf("record %s is stored, but was refused: %v", r.Data, err)
		}
	}
	for position, text := range s.acknowledged {
		if texts[position] != text {
			t.Errorf("position %d holds %q, but %q was acknowledged", position, texts[position], text)
		}
	}
	t.Logf("%d records acknowledged, %d without success, %d stored, opened %d times",
		len(s.acknowledged), len(s.refused), len(stored), s.opened.Load())
}

// unique numbers records and ConfigMaps, so that no two in a run are equal.
var unique atomic.Int64

// newStore returns a store in a new namespace.
func newStore(t testing.TB, config *rest.Config) *journal.ConfigMaps {
	t.Helper()
	store, err := journal.NewConfigMaps(config, newNamespace(t, config))
	runtest.Check(t, err)
	return store
}

func newNamespace(t testing.TB, config *rest.Config) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	runtest.Check(t, err)
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "journal-"}}, metav1.CreateOptions{})
	runtest.Check(t, err)
	return namespace.Name
}
