package app

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"
)

// openConsole starts the console of a cluster. It returns a function that opens a page in a browser that has its key.
func openConsole(t *testing.T, kubeconfig, context string, flags ...string) (open func(path string) (status int, body string)) {
	t.Helper()
	served := startCommand(t, time.Now, append([]string{"console", "--open=false", "--kubeconfig", kubeconfig, "--context", context}, flags...)...)
	t.Cleanup(served.stop)
	served.await("/open?key=")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser, address := &http.Client{Jar: jar}, served.seen[len(served.seen)-1]
	get := func(address string) (int, string) {
		t.Helper()
		response, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	get(address)
	base, _, _ := strings.Cut(address, "/open?key=")
	return func(path string) (int, string) { return get(base + path) }
}

// testConsole opens the console of each cluster as a browser does.
func testConsole(t *testing.T, kubeconfig string) {
	for context, has := range map[string]string{"broker": ">Queue</a>", "rome": ">My requests</a>"} {
		if status, body := openConsole(t, kubeconfig, context)("/"); status != http.StatusOK || !strings.Contains(body, has) {
			t.Errorf("the console of %s: status %d, without %q:\n%s", context, status, has, body)
		}
	}
	for flag, offers := range map[string]bool{"--actions": true, "--actions=false": false} {
		if _, body := openConsole(t, kubeconfig, "rome", flag)("/requests"); strings.Contains(body, `href="/actions/reserve"`) != offers {
			t.Errorf("with %s, want an action: %v\n%s", flag, offers, body)
		}
	}
	code, _, talk := run(t, "console", "--port", "99999")
	if code != exitUsage || !strings.Contains(talk, "99999") {
		t.Errorf("a port that does not exist: exit code %d, %s", code, talk)
	}
}

// testConsoleCosts opens the page Costs after writeAccounts.
func testConsoleCosts(t *testing.T, kubeconfig string) {
	open := openConsole(t, kubeconfig, "broker")
	for path, has := range map[string]string{
		"/costs?by=tenant&from=2026-10-01&to=2026-12-01":    "<td>blue</td>",
		"/costs?by=provider&from=2026-10-01&to=2026-12-01":  "75 %",
		"/costs?from=2026-10-01&to=2026-12-01&period=month": "kubectl broker --kubeconfig " + kubeconfig + " --context broker cost --from 2026-10-01 --to 2026-12-01 --period month",
		"/costs?from=2026-12-01&to=2026-10-01":              "is empty: the first must be before the second",
		"/costs?from=yesterday":                             "write a day or a full hour",
		"/costs?by=reservation":                             "a broker knows requester, tenant, provider, resource",
		"/costs/focus.csv?from=2026-10-01&to=2026-11-01":    ",rome/blue,",
	} {
		if status, body := open(path); status != http.StatusOK || !strings.Contains(body, has) {
			t.Errorf("%s: status %d, without %q:\n%s", path, status, has, body)
		}
	}
}

// testConsoleAudit opens the page Audit of a journal with the records of trailtest in namespace trail.
func testConsoleAudit(t *testing.T, kubeconfig string) {
	open := openConsole(t, kubeconfig, "broker", "-n", "trail")
	for path, texts := range map[string][]string{
		"/audit?actor=alice":                             {"<td>alice, as reported by rome</td>", "records 1 to 9 in", "not compared with any member", " --context broker audit log --actor alice", "1 in all"},
		"/audit?kind=acknowledge,end":                    {">5</a>", ">7</a>", "2 in all"},
		"/audit?record=7":                                {"&#34;reason&#34;: &#34;Expired&#34;", "<dd>the broker (deadlines)</dd>"},
		"/audit?ended=true&cluster=rome":                 {"<td>alice, as reported by rome</td>", "<td>Expired</td>"},
		"/audit?ended=true&kind=end":                     {"reservations, which have no --kind"},
		"/audit?since=yesterday":                         {"&#34;yesterday&#34; is no time"},
		"/audit?kind=reserved":                           {"no record is of kind &#34;reserved&#34;"},
		"/audit/export.jsonl":                            {`{"position":1,`, `{"end":`},
		"/audit/export.jsonl?since=2030-01-01T08:05:00Z": {`{"position":7,`},
	} {
		status, body := open(path)
		for _, text := range texts {
			if status != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("%s: status %d, without %q:\n%s", path, status, text, body)
			}
		}
	}
	if _, body := openConsole(t, kubeconfig, "broker", "-n", "default")("/audit"); !strings.Contains(body, "has no journal") {
		t.Errorf("a namespace without a journal:\n%s", body)
	}
}
