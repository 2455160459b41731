package console

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
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

func TestEventsContainTheWholePage(t *testing.T) {
	page := "<input value=\"a\rb\">\n\n<p>end"
	want := "data: <input value=\"a&#13;b\">\ndata: \ndata: <p>end\n\n"
	if got := string(eventOf([]byte(page))); got != want {
		t.Errorf("event %q, want %q", got, want)
	}
}
