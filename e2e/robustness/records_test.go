package robustness

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// records replays the journal from etcd, revision by revision, from before its first record. It shares no code with
// package journal: it implements docs/journal.md.
type records struct {
	defects *defects
	done    chan struct{}
	stop    context.CancelFunc

	mu        sync.Mutex
	book      *ledger.State
	revisions int
	events    int
	// connecting and unready count the nodes that waited for their network, and those that failed.
	connecting, unready int
	tail                tailText
	// granted are all reservations ever granted, by requester and key; ended are those that have ended.
	granted map[string]string
	ended   map[string]bool
	err     error
}

// tailText identifies the end of a tail, at which its successor must continue.
type tailText struct {
	anchor, head string
	position     uint64
	lines        string
}

func (s *site) watchRecords() *records {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	r := &records{
		defects: &s.defects, done: make(chan struct{}), stop: stop,
		book: ledger.New(), granted: map[string]string{}, ended: map[string]bool{},
	}
	body, err := s.openWatch(ctx) //nolint:bodyclose // closed by the reader
	s.check(err)
	go func() {
		defer close(r.done)
		defer body.Body.Close() //nolint:errcheck // it ends with the test
		r.follow(ctx, json.NewDecoder(body.Body))
	}()
	s.t.Cleanup(func() { stop(); <-r.done })
	return r
}

// openWatch watches the tail of the broker's journal from revision 1 through etcd's JSON gateway.
func (s *site) openWatch(ctx context.Context) (*http.Response, error) {
	port, err := s.plane.Port("etcd")
	if err != nil {
		return nil, err
	}
	prefix := "/registry/configmaps/" + namespace + "/" + broker.JournalName + "-journal-tail"
	body, err := json.Marshal(map[string]any{"create_request": map[string]any{
		"key": base64.StdEncoding.EncodeToString([]byte(prefix)), "start_revision": "1",
	}})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/v3/watch", port), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}

// watchAnswer is one message of the gateway's stream.
type watchAnswer struct {
	Result struct {
		Canceled        bool   `json:"canceled"`
		CompactRevision string `json:"compact_revision"`
		Events          []struct {
			Type string `json:"type"`
			KV   struct {
				Revision string `json:"mod_revision"`
				Value    []byte `json:"value"`
			} `json:"kv"`
		} `json:"events"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (r *records) follow(ctx context.Context, stream *json.Decoder) {
	for {
		var next watchAnswer
		if err := stream.Decode(&next); err != nil {
			if ctx.Err() == nil {
				r.fail(fmt.Errorf("watch of etcd: %w", err))
			}
			return
		}
		if next.Error != nil || next.Result.Canceled {
			r.fail(fmt.Errorf("watch of etcd ended: %+v", next))
			return
		}
		for _, event := range next.Result.Events {
			if event.Type == "DELETE" {
				r.fail(fmt.Errorf("the journal's tail was deleted at revision %s", event.KV.Revision))
				return
			}
			if err := r.take(event.KV.Revision, event.KV.Value); err != nil {
				r.fail(fmt.Errorf("revision %s: %w", event.KV.Revision, err))
				return
			}
		}
	}
}

func (r *records) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	r.defects.note("journal: %v", err)
}

// take checks that one revision of the tail continues the previous one, and applies the new records to the book.
func (r *records) take(revision string, value []byte) error {
	if _, err := strconv.ParseUint(revision, 10, 64); err != nil {
		return err
	}
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return err
	}
	stored := decoded.(*corev1.ConfigMap)
	lines, err := decompress(stored.BinaryData["records"])
	if err != nil {
		return err
	}
	var header struct {
		Anchor struct {
			Position uint64
			Hash     string
		}
		Head struct {
			Position uint64
			Hash     string
		}
	}
	if err := json.Unmarshal([]byte(stored.Data["header"]), &header); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revisions++
	next := tailText{anchor: header.Anchor.Hash, head: header.Head.Hash, position: header.Head.Position, lines: lines}
	fresh, err := r.tail.addedLines(next)
	if err != nil {
		return err
	}
	r.tail = next
	for line := range strings.Lines(fresh) {
		if err := r.record([]byte(line)); err != nil {
			return err
		}
	}
	return nil
}

// decompress returns the decompressed records of a tail.
func decompress(file []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return "", err
	}
	lines, err := io.ReadAll(r)
	return string(lines), err
}

// addedLines returns the lines that a tail adds to the previous one. The new tail must contain the previous one or
// follow it.
func (t tailText) addedLines(next tailText) (string, error) {
	switch {
	case t.head == "" || next.anchor == t.head:
		return next.lines, nil
	case next.anchor == t.anchor && strings.HasPrefix(next.lines, t.lines):
		return next.lines[len(t.lines):], nil
	default:
		return "", fmt.Errorf("records are lost: a tail that ended at position %d was replaced by one that ends at %d and does not follow from it",
			t.position, next.position)
	}
}

func (r *records) record(line []byte) error {
	var entry struct {
		Position uint64          `json:"p"`
		Record   json.RawMessage `json:"record"`
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		return fmt.Errorf("record %.200q: %w", line, err)
	}
	if entry.Record == nil {
		return nil
	}
	var e ledger.Event
	if err := e.UnmarshalJSON(entry.Record); err != nil {
		return fmt.Errorf("record %d: %w", entry.Position, err)
	}
	r.events++
	before := r.placements(&e)
	if err := r.book.Apply(entry.Position, &e); err != nil {
		return fmt.Errorf("record %d, %.300s: %w", entry.Position, entry.Record, err)
	}
	switch change := e.Change.(type) {
	case *ledger.Reserve:
		id := change.Requester + " " + change.Key
		if other, again := r.granted[id]; again {
			return fmt.Errorf("record %d: key %s has the reservations %s and %s", entry.Position, id, other, change.Name)
		}
		r.granted[id] = change.Name
	case *ledger.End:
		r.ended[change.Name] = true
	case *ledger.Connect:
		r.connecting++
	case *ledger.NodeReady:
		if !change.Ready {
			r.unready++
		}
	}
	if _, adopted := e.Change.(*ledger.Adopt); r.placements(&e) > before && !adopted {
		return r.checkCapacity(entry.Position, e.Reservation())
	}
	return nil
}

func (r *records) placements(e *ledger.Event) int {
	if of := r.book.Reservation(e.Reservation()); of != nil {
		return len(of.Placements)
	}
	return 0
}

// checkCapacity recounts all promises of the provider of a reservation's newest placement. It returns an error if the
// provider has promised more of a resource than it offers.
func (r *records) checkCapacity(position uint64, name string) error {
	of := r.book.Reservation(name)
	provider := of.Current().Provider
	offer := r.book.Cluster(provider).Offer
	sum := quantity.Amounts{}
	r.book.Reservations(func(other *ledger.Reservation) {
		for i := range other.Placements {
			if p := &other.Placements[i]; p.Provider == provider && !p.ProviderGone {
				sum = sum.Add(other.Amounts.Max(offer.Used[brokerv1alpha1.PlacementName(other.Name, p.Number)]))
			}
		}
	})
	for resource := range of.Amounts {
		if room := offer.Allocatable[resource] - offer.Allocated[resource]; sum[resource] > room {
			return fmt.Errorf("record %d: overbooked: with %s, %s has promised %d of %s and has %d", position, name, provider, sum[resource], resource, room)
		}
	}
	return nil
}

// awaitCaughtUp waits until the replay has reached the end of the journal.
func (r *records) awaitCaughtUp(s *site) {
	s.t.Helper()
	store, err := journal.NewConfigMaps(s.plane.RESTConfig(), namespace)
	s.check(err)
	verified, err := journal.Verify(s.t.Context(), store, broker.JournalName, journal.Options{})
	s.check(err)
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		r.mu.Lock()
		at, failed := r.tail.position, r.err
		r.mu.Unlock()
		if at >= verified.Head || failed != nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("etcd has told of position %d, the journal is at %d", at, verified.Head)
		}
	}
}

// check compares the clients' answers with the journal: every answered write is there, exactly once.
func (r *records) check(t *testing.T, w *traffic) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d revisions of the journal, %d events, %d reservations; %d nodes waited for their network, %d failed",
		r.revisions, r.events, len(r.granted), r.connecting, r.unready)
	// In shorter runs, the random numbers may leave out one of the two.
	if len(r.granted) >= 500 && (r.connecting == 0 || r.unready == 0) {
		t.Error("no node waited for its network, or none failed: the run shows nothing about them")
	}
	for key, name := range w.grants {
		id := strings.Split(key, ".")[0] + " " + key
		if got := r.granted[id]; got != name {
			t.Errorf("key %s was answered with reservation %s, the journal has %q", key, name, got)
		}
		if w.ends[key] && !r.ended[name] {
			t.Errorf("reservation %s of key %s was given back, and the journal does not say so", name, key)
		}
	}
}
