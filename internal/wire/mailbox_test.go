package wire

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestRequestsCrossAMailbox checks that an opened request equals the packed one.
func TestRequestsCrossAMailbox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom([]string{"GET", "POST", "PATCH", "DELETE"}).Draw(t, "method")
		path := rapid.StringMatching(`/api/v1/[a-z]{1,20}(/[a-z0-9.-]{1,20})?(\?wait=[0-9]{1,2}&after=[a-z0-9]{1,9})?`).Draw(t, "path")
		body := rapid.String().Draw(t, "body")
		key, cursor := rapid.StringMatching(`[a-z0-9.-]{0,20}`).Draw(t, "key"), rapid.StringMatching(`[a-z0-9/]{0,20}`).Draw(t, "cursor")
		sent, err := http.NewRequestWithContext(t.Context(), method, "kubernetes://mailbox-rome"+path, strings.NewReader(body))
		runtest.Check(t, err)
		sent.Header.Set("Idempotency-Key", key)
		sent.Header.Set(v1.CursorHeader, cursor)
		minor := strconv.Itoa(rapid.IntRange(0, 99).Draw(t, "minor"))
		sent.Header.Set(v1.MinorHeader, minor)
		spec, err := PackRequest(sent)
		runtest.Check(t, err)
		got, err := OpenRequest(t.Context(), &spec)
		runtest.Check(t, err)
		read, err := io.ReadAll(got.Body)
		runtest.Check(t, err)
		want := []string{method, path, body, key, cursor, minor}
		if diff := cmp.Diff(want, []string{got.Method, got.URL.RequestURI(), string(read), got.Header.Get("Idempotency-Key"), got.Header.Get(v1.CursorHeader), got.Header.Get(v1.MinorHeader)}); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		if got.ContentLength != int64(len(body)) { // limits on bodies depend on it
			t.Errorf("content length %d, want %d", got.ContentLength, len(body))
		}
	})
}

func TestAnswersCrossAMailbox(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.IntRange(200, 599).Draw(t, "code")
		kind := rapid.SampledFrom([]string{"", "application/json", "application/problem+json"}).Draw(t, "content type")
		after := rapid.SampledFrom([]string{"", "1", "3600"}).Draw(t, "retry after")
		body := rapid.String().Draw(t, "body")
		status, err := PackAnswer(code, http.Header{"Content-Type": {kind}, "Retry-After": {after}}, []byte(body))
		runtest.Check(t, err)
		got, err := OpenAnswer(nil, &status) //nolint:bodyclose // the body is in memory
		runtest.Check(t, err)
		read, err := io.ReadAll(got.Body)
		runtest.Check(t, err)
		if got.StatusCode != code || string(read) != body || got.Header.Get("Content-Type") != kind || got.Header.Get("Retry-After") != after {
			t.Errorf("%d %q %v, want %d %q %q %q", got.StatusCode, read, got.Header, code, body, kind, after)
		}
	})
}

func TestBodiesTooLongForAMailbox(t *testing.T) {
	noise := func(n int) string {
		var b strings.Builder
		state := uint64(1)
		for b.Len() < n {
			state = state*6364136223846793005 + 1442695040888963407
			b.WriteByte(byte(state >> 56))
		}
		return b.String()
	}
	for name, tc := range map[string]struct {
		size     int
		request  bool
		tooLarge bool
	}{
		"a request that fits":     {size: maxMailboxRequest - 4096, request: true},
		"a request that does not": {size: maxMailboxRequest + 1, request: true, tooLarge: true},
		"an answer that fits":     {size: maxMailboxAnswer - 4096},
		"an answer that does not": {size: maxMailboxAnswer + 1, tooLarge: true},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if tc.request {
				var r *http.Request
				r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(noise(tc.size)))
				runtest.Check(t, err)
				_, err = PackRequest(r)
			} else {
				_, err = PackAnswer(http.StatusOK, http.Header{}, []byte(noise(tc.size)))
			}
			if tooLarge := err != nil && strings.Contains(err.Error(), "use the http transport"); tooLarge != tc.tooLarge {
				t.Errorf("%v, want it too large: %t", err, tc.tooLarge)
			}
		})
	}
}
