package console

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// lateObjects is a source whose snapshot stays what it was until a test says so, as that of informedObjects does for up to
// rebuildInterval.
type lateObjects struct {
	*fixedObjects
	late *shared
}

func (l *lateObjects) snapshot(ctx context.Context) (*shared, error) {
	if l.late != nil {
		return l.late, nil
	}
	return l.fixedObjects.snapshot(ctx)
}

// A stream must remember the revision of the snapshot that it has shown, and not the present
// revision of the objects. Otherwise it would miss the last change before a quiet time.
func TestStreamSendsAChangeThatCameAfterItsSnapshot(t *testing.T) {
	objects := &lateObjects{fixedObjects: &fixedObjects{view: brokerSnapshot(t), changes: 1}}
	s := siteOf(objects.fixedObjects)
	s.objects = objects
	stream := &stream{site: s, page: pageAt(t, "/queue")}
	request := httptest.NewRequest(http.MethodGet, "/queue", nil)
	request.Header.Set("Authorization", "Bearer admin")
	var err error
	if objects.late, err = objects.fixedObjects.snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	objects.late.Broker = new(*objects.late.Broker)
	objects.keepFirst()
	if first := string(stream.nextMessage(request)); strings.Contains(first, "Nothing waits.") {
		t.Fatalf("the snapshot is not late: %q", first)
	}
	objects.late = nil
	if second := string(stream.nextMessage(request)); !strings.Contains(second, "Nothing waits.") {
		t.Errorf("the change was missed: %q", second)
	}
}

// pageAt returns the page with a pattern.
func pageAt(t *testing.T, pattern string) page {
	t.Helper()
	for _, p := range pages {
		if p.pattern == pattern {
			return p
		}
	}
	t.Fatalf("there is no page %s", pattern)
	return page{}
}

func TestStreamSendsThePageOnlyWhenItChanged(t *testing.T) {
	objects, now := &fixedObjects{view: brokerSnapshot(t), changes: 1}, noon
	s := &site{
		objects: objects, reviews: namedUsers{}, users: fixedReads{}, broker: true, name: "Broker", now: func() time.Time { return now }, log: logr.Discard(),
		authenticator: &sessions{key: func() ([]byte, error) { return bytes.Repeat([]byte{7}, 32), nil }, now: time.Now},
	}
	request := httptest.NewRequest(http.MethodGet, "/queue", nil)
	request.Header.Set("Authorization", "Bearer admin")
	stream := &stream{site: s, page: pageAt(t, "/queue")}

	if first := string(stream.nextMessage(request)); !strings.HasPrefix(first, "data: <h1>Queue</h1>\n") || !strings.HasSuffix(first, "\n\n") || !strings.Contains(first, "waits") {
		t.Fatalf("first message %q", first)
	}
	if again := stream.nextMessage(request); again != nil {
		t.Errorf("without a change: %q", again)
	}
	objects.changes++
	if again := stream.nextMessage(request); again != nil {
		t.Errorf("after a change elsewhere: %q", again)
	}
	objects.keepFirst()
	if changed := string(stream.nextMessage(request)); !strings.Contains(changed, "Nothing waits.") {
		t.Errorf("after the change: %q", changed)
	}
	now = now.Add(quietInterval)
	if quiet := string(stream.nextMessage(request)); quiet != ":\n\n" {
		t.Errorf("a quiet stream says %q", quiet)
	}
	now = now.Add(refreshInterval - quietInterval)
	if later := stream.nextMessage(request); !bytes.HasPrefix(later, []byte("data: ")) {
		t.Errorf("ages are not refreshed: %q", later)
	}
	now = now.Add(refreshInterval)
	request.Header.Set("Authorization", "Bearer stranger")
	if ended := stream.nextMessage(request); ended != nil || !stream.over {
		t.Error("the stream goes on although the token is no longer valid")
	}
}

func TestStreamSaysThatItsObjectIsGone(t *testing.T) {
	objects := &fixedObjects{view: brokerSnapshot(t), changes: 1}
	stream := &stream{site: siteOf(objects), page: pageAt(t, "/objects/{kind}/{namespace}/{name}")}
	request := httptest.NewRequest(http.MethodGet, "/objects/reservation/team/waits", nil)
	for name, value := range map[string]string{"kind": "reservation", "namespace": "team", "name": "waits"} {
		request.SetPathValue(name, value)
	}
	request.Header.Set("Authorization", "Bearer admin")
	if first := string(stream.nextMessage(request)); !strings.Contains(first, "milan") {
		t.Fatalf("first message %q", first)
	}
	objects.keepFirst()
	if gone := string(stream.nextMessage(request)); !strings.Contains(gone, "There is no such page or object") || stream.over {
		t.Errorf("after the deletion: %q, over: %v", gone, stream.over)
	}
}

func TestStreamsOfOneUserAreLimited(t *testing.T) {
	site := siteOf(&fixedObjects{view: brokerSnapshot(t)})
	handler := newHandler(site)
	open := func(user string) int {
		recorder, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/live/queue", nil)
		request.Header.Set("Authorization", "Bearer "+user)
		handler.ServeHTTP(recorder, request) // returns at once, because a recorder has no deadlines
		return recorder.Code
	}
	for range maxStreams {
		site.streams.add("admin", 1)
	}
	if status := open("admin"); status != http.StatusTooManyRequests {
		t.Errorf("one stream too many: status %d", status)
	}
	if status := open("team"); status != http.StatusOK {
		t.Errorf("a stream of another user: status %d", status)
	}
	site.streams.add("admin", -1)
	for range 2 {
		if status := open("admin"); status != http.StatusOK {
			t.Errorf("after a stream has ended: status %d", status)
		}
	}
}

// Streams last longer than a request may take to arrive. Without that limit, strangers could keep connections open.
func TestOnlySlowRequestsAreCutOff(t *testing.T) {
	objects := &fixedObjects{view: brokerSnapshot(t), changes: 1}
	server := httptest.NewUnstartedServer(nil)
	server.Config = newHTTPServer(newHandler(siteOf(objects)))
	if server.Config.ReadTimeout == 0 {
		t.Error("a request may take as long as it likes")
	}
	server.Config.ReadTimeout = 100 * time.Millisecond
	server.Start()
	t.Cleanup(server.Close)

	slow, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	runtest.Check(t, err)
	defer func() { _ = slow.Close() }()
	_, err = io.WriteString(slow, "POST /login HTTP/1.1\r\nHost: console\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 10\r\n\r\n")
	runtest.Check(t, err)
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("the server does not close a connection without the promised body: %v", err)
	}

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/live/queue", nil)
	runtest.Check(t, err)
	request.Header.Set("Authorization", "Bearer admin")
	stream, err := server.Client().Do(request)
	runtest.Check(t, err)
	defer func() { _ = stream.Body.Close() }()
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && lines.Text() != "" { // the first page
	}
	objects.keepFirst()
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Nothing waits.") {
			return
		}
	}
	t.Errorf("the stream ended without the change: %v", lines.Err())
}

// Otherwise streams would send the page again and again.
func TestFailedWatchesAreListedInOrder(t *testing.T) {
	trouble := &watchTrouble{now: time.Now, last: map[string]watchFailure{}}
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprintf("Kind%d", i))
		trouble.last[want[i]] = watchFailure{time.Now(), io.ErrUnexpectedEOF}
	}
	for i, gap := range trouble.failureGaps() {
		if gap.Resource != want[i] {
			t.Errorf("gap %d is about %s", i, gap.Resource)
		}
	}
}

func TestEventsContainTheWholePage(t *testing.T) {
	page := "<input value=\"a\rb\">\n\n<p>end"
	want := "data: <input value=\"a&#13;b\">\ndata: \ndata: <p>end\n\n"
	if got := string(eventOf([]byte(page))); got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}
