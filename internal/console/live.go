package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// updateInterval is how often a stream checks whether objects have changed.
	updateInterval = time.Second
	// quietInterval is how often a stream without changes sends a comment of the event stream, which browsers ignore,
	// because proxies close quiet connections after a minute.
	quietInterval = 30 * time.Second
	// refreshInterval is how often a stream renders the page even if no object has changed, because ages grow and
	// rights may end.
	refreshInterval = time.Minute
	// maxStreams limits the open streams of one user: each can render a page every second. Browsers close the streams of
	// hidden pages.
	maxStreams = 100
)

// openStreams counts the open streams of each user.
type openStreams struct {
	mu     sync.Mutex
	counts map[string]int
}

// add counts a stream of a user more, or less if n is negative. It reports false, and counts nothing, above maxStreams.
func (o *openStreams) add(user string, n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts[user]+n > maxStreams {
		return false
	}
	if o.counts == nil {
		o.counts = map[string]int{}
	}
	if o.counts[user] += n; o.counts[user] == 0 {
		delete(o.counts, user)
	}
	return true
}

// serveStream sends the main part of a page whenever it has changed. It sends server-sent events without a name, whose
// data the browser puts into the page. While no object changes, it only compares two numbers every second, and renders
// the page once per refreshInterval.
func (s *site) serveStream(w http.ResponseWriter, r *http.Request, p page) {
	refuse := func(status int, text string) {
		w.Header().Set("HX-Reswap", "none") // the page stays as it is
		http.Error(w, text, status)
	}
	v, err := s.authenticateUser(r.Context(), r)
	switch {
	case errors.Is(err, errUnauthenticated):
		refuse(http.StatusUnauthorized, err.Error())
		return
	case err != nil:
		refuse(http.StatusServiceUnavailable, notMade)
		return
	case !s.streams.add(v.visitor.info.Username, 1):
		refuse(http.StatusTooManyRequests, "you have too many open pages")
		return
	}
	defer s.streams.add(v.visitor.info.Username, -1)
	r.URL.Path = r.URL.Path[len("/live"):]
	stream := &stream{site: s, page: p}
	message := stream.nextMessage(r)
	if stream.over { // browsers wait longer and longer after an error, but not after an empty stream
		refuse(http.StatusServiceUnavailable, notMade)
		return
	}
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")                     // nginx would hold messages back
	if err := control.SetWriteDeadline(time.Time{}); err != nil { // the server's write deadline is meant for whole pages
		return
	}
	tick := time.NewTicker(updateInterval)
	defer tick.Stop()
	for !stream.over && (message == nil || sendMessage(w, control, message)) {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		message = stream.nextMessage(r)
	}
}

// sendMessage writes a message to the browser. It reports whether this succeeded within writeTimeout.
func sendMessage(w io.Writer, control *http.ResponseController, message []byte) bool {
	late := time.AfterFunc(writeTimeout, func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) })
	defer late.Stop()
	_, err := w.Write(message)
	return err == nil && control.Flush() == nil
}

// stream is the state of one open stream.
type stream struct {
	site     *site
	page     page
	shown    []byte
	revision uint64
	madeAt   time.Time
	sentAt   time.Time
	// over is true after rendering the page has failed. The stream then ends.
	over bool
}

// nextMessage returns the next message, or nil if there is nothing to send.
func (t *stream) nextMessage(r *http.Request) []byte {
	now := t.site.now()
	message := t.changedPage(r, now)
	if message == nil && now.Sub(t.sentAt) >= quietInterval && !t.over {
		message = []byte(":\n\n") // a comment
	}
	if message != nil {
		t.sentAt = now
	}
	return message
}

// changedPage returns the page as an event if it has changed, or else nil.
func (t *stream) changedPage(r *http.Request, now time.Time) []byte {
	if t.shown != nil && t.site.objects.revision() == t.revision && now.Sub(t.madeAt) < refreshInterval {
		return nil
	}
	visit, err := t.site.authenticateUser(r.Context(), r)
	if err != nil {
		t.over = true
		return nil
	}
	body, err := visit.renderMain(r, t.page)
	if err != nil {
		t.over = true
		return nil
	}
	t.revision, t.madeAt = visit.revision, now // a snapshot can be older than the objects, and is then replaced soon
	if bytes.Equal(body, t.shown) {
		return nil
	}
	t.shown = body
	return eventOf(body)
}

// renderMain renders the main part of a page, which streams replace. If the object has been deleted, it says so.
func (v *visit) renderMain(r *http.Request, p page) ([]byte, error) {
	c, err := v.fillPage(r.Context(), p)
	if errors.Is(err, errNotFound) {
		c, err = notFoundPage(), nil
	}
	if err != nil {
		return nil, err
	}
	return renderTemplate("main", "", v.site.newFrame(v, c))
}

// eventOf encodes HTML as a server-sent event. A carriage return, for example from a filter, would end a line of the
// event, and the browser would drop the rest.
func eventOf(text []byte) []byte {
	var event bytes.Buffer
	for line := range bytes.Lines(bytes.ReplaceAll(text, []byte("\r"), []byte("&#13;"))) {
		fmt.Fprintf(&event, "data: %s\n", bytes.TrimSuffix(line, []byte("\n")))
	}
	event.WriteByte('\n')
	return event.Bytes()
}
