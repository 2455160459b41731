package console

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

//go:embed testdata/axe-4.14.1.min.js
var axe string

// TestPagesInABrowser opens every page with Chromium, in both colour schemes and two widths (with -short in one of the
// four combinations, which depends on the page). The page must not violate its policy for scripts and styles, and axe
// must find no obstacle for people with disabilities. With LRB_SCREENSHOTS=DIR, the test writes screenshots to that folder.
func TestPagesInABrowser(t *testing.T) {
	browser := startBrowser(t)
	objects := &fixedObjects{view: brokerSnapshot(t)}
	server, member := serve(t, objects), serve(t, &fixedObjects{view: memberSnapshot(t)})
	addresses := map[string]string{"login": server.URL + "/"}
	browser.look(t, addresses)

	browser.logIn(t, server.URL+"/queue", "admin")
	for name, path := range map[string]string{
		"overview": "/", "clusters": "/clusters", "reservations": "/reservations", "queue": "/queue", "requesters": "/requesters", "configuration": "/configuration",
		"reasons": "/reasons?text=room", "reservation": "/objects/reservation/default/served", "waiting": "/objects/reservation/team/waits", "missing": "/nowhere",
	} {
		addresses[name] = server.URL + path
	}
	delete(addresses, "login")
	browser.look(t, addresses)

	costs := costServer(t, "milan", "rome", "turin", "a-requester-with-a-rather-long-name.of-a-team.example.com")
	browser.look(t, map[string]string{"costs": costs.URL + "/costs", "costs-denied": costs.URL + "/costs?period=hour", "costs-by-day": costs.URL + "/costs?period=day", "costs-in-cluster": server.URL + "/costs"})

	plans := planServer(t, "served", "a-reservation-with-a-rather-long-name-of-a-team", "second")
	browser.look(t, map[string]string{
		"plan": plans.URL + "/plan", "plan-drain": plans.URL + "/plan?change=drain&cluster=paris&notice=10m", "plan-add": plans.URL + "/plan?change=add&cluster=turin&cpu=64",
		"plan-demand": plans.URL + "/plan?change=demand&cpu=8&times=3", "plan-refused": plans.URL + "/plan?change=drain&cluster=lyon", "plan-in-cluster": server.URL + "/plan",
	})

	audit := auditServer(t, "alice, as reported by a-cluster-with-a-rather-long-name", 12)
	browser.look(t, map[string]string{
		"audit": audit.URL + "/audit", "audit-record": audit.URL + "/audit?record=2", "audit-ended": audit.URL + "/audit?ended=true", "audit-refused": audit.URL + "/audit?since=yesterday",
	})

	acting, lending := serveActions(t, brokerSnapshot(t)).server, serveActions(t, lenderSnapshot(t))
	browser.look(t, map[string]string{
		"act-configuration": acting.URL + "/configuration", "act-approve": acting.URL + askApprove, "act-drain": acting.URL + askDrain, "act-cluster": acting.URL + clusterPage + "?done=drain",
		"act-reserve": lending.server.URL + "/actions/reserve?cpu=2&memory=4Gi", "act-release": lending.server.URL + askRelease, "act-recall": lending.server.URL + askRecall,
		"act-request": lending.server.URL + requestPage, "act-quote": lending.server.URL + "/quote?cpu=2&memory=4Gi&for=8h", "act-requests": lending.server.URL + "/requests", "lent": lending.server.URL + "/lent",
	})
	browser.reserveAndRelease(t, lending)

	browser.seeChange(t, server.URL+"/queue", objects.keepFirst)

	// Cookies apply to all ports of a host, so the browser is logged in on this server too.
	browser.look(t, map[string]string{
		"quote": member.URL + "/quote", "quote-served": member.URL + "/quote?cpu=2&memory=4Gi&for=8h", "quote-nobody": member.URL + "/quote?cpu=64&memory=4Gi", "quote-denied": member.URL + "/quote?cpu=2&memory=4Gi&namespace=closed",
		"member-overview": member.URL + "/", "member-requests": member.URL + "/requests", "member-request": member.URL + "/objects/resourcerequest/try/my-request", "member-lent": member.URL + "/lent",
	})
}

// browser is a running Chromium. problems receives what it logs, for example a violation of the policy.
type browser struct {
	ctx      context.Context
	problems chan string
}

// startBrowser starts Chromium, see docs/testing.md.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		if os.Getenv("LRB_BROWSER") == "required" {
			t.Fatal(err)
		}
		t.Skip("Debian's package chromium-headless-shell is not installed")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.IgnoreCertErrors)
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx, problems: make(chan string, 1000)}
	// The first action starts Chromium, which stops when the context of that action ends.
	if err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, log.Enable, cdp.Empty{})
		return err
	})); err != nil {
		t.Fatal(err)
	}
	entries := chromedp.Events(ctx, log.EntryAdded)
	go func() {
		for entry, err := range entries {
			if err != nil {
				return
			}
			if !strings.Contains(entry.Entry.Text, "the server responded with a status of 4") {
				b.problems <- entry.Entry.Text + " " + entry.Entry.URL
			}
		}
	}()
	return b
}

// do runs an action and returns its value.
func do[T any](t *testing.T, b *browser, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// logIn logs in with the keyboard only.
func (b *browser) logIn(t *testing.T, address, token string) {
	t.Helper()
	for _, step := range []chromedp.Action[chromedp.Void]{
		chromedp.Navigate(address), chromedp.Focus(chromedp.CSS("#token")), chromedp.KeyEvent(token), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitVisible(chromedp.CSS("header nav")),
	} {
		do(t, b, step)
	}
}

// seeChange checks that an open page shows a change without being reloaded.
func (b *browser) seeChange(t *testing.T, address string, change func()) {
	t.Helper()
	do(t, b, chromedp.Navigate(address))
	do(t, b, chromedp.WaitVisible(chromedp.CSS("main table")))
	do(t, b, chromedp.Evaluate[bool]("window.notLoadedAgain = true"))
	change()
	do(t, b, chromedp.Poll[bool]("document.querySelector('main .empty') !== null", chromedp.WithPollingInterval(100*time.Millisecond)))
	if !do(t, b, chromedp.Evaluate[bool]("window.notLoadedAgain === true")) {
		t.Error("the page was loaded again")
	}
}

// reserveAndRelease reserves and releases capacity with the keyboard only, and releases it without JavaScript.
func (b *browser) reserveAndRelease(t *testing.T, c *actingConsole) {
	t.Helper()
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			do(t, b, chromedp.KeyEvent(key))
		}
	}
	// focus presses Tab until the focus is on an element whose text or label begins with text.
	focus := func(text string) {
		t.Helper()
		for range 60 {
			press(kb.Tab)
			focused := do(t, b, chromedp.Evaluate[string]("(document.activeElement.labels && document.activeElement.labels[0] || document.activeElement).innerText.trim()"))
			if strings.HasPrefix(focused, text) {
				return
			}
		}
		t.Fatalf("Tab does not reach %q", text)
	}
	read := func() *agentv1alpha1.ResourceRequest {
		t.Helper()
		out := &agentv1alpha1.ResourceRequest{}
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "typed"}, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	scripts := func(disabled bool) {
		do(t, b, func(ctx context.Context, tab *chromedp.Target) (cdp.Empty, error) {
			return cdp.Call(ctx, tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: disabled})
		})
	}
	do(t, b, chromedp.Navigate(c.server.URL+"/requests"))
	do(t, b, chromedp.WaitVisible(chromedp.CSS(".actions a")))
	focus("Reserve…")
	press(kb.Enter)
	do(t, b, chromedp.WaitVisible(chromedp.CSS("form.action")))
	for label, text := range map[string]string{"Name": "typed", "CPU": "2", "Memory": "4Gi"} {
		do(t, b, chromedp.Focus(chromedp.CSS("#main")))
		focus(label)
		press(text)
	}
	press(kb.Enter) // sends the form
	do(t, b, chromedp.WaitVisible(chromedp.CSS(".verdict")))
	if r := read(); r.Spec.CPU.String() != "2" || r.Spec.Memory.String() != "4Gi" {
		t.Errorf("reserved: %+v", r.Spec)
	}

	scripts(true)
	defer scripts(false)
	do(t, b, chromedp.Navigate(c.server.URL+"/objects/resourcerequest/default/typed"))
	focus("Release…")
	press(kb.Enter)
	do(t, b, chromedp.WaitVisible(chromedp.CSS("form.action")))
	focus("Release")
	press(kb.Enter)
	do(t, b, chromedp.WaitVisible(chromedp.CSS(".verdict")))
	if !read().Spec.Release {
		t.Error("the request was not released")
	}
	for len(b.problems) > 0 {
		t.Errorf("the browser says: %s", <-b.problems)
	}
}

func (b *browser) look(t *testing.T, addresses map[string]string) {
	t.Helper()
	for name, address := range addresses {
		for i, scheme := range []string{"light", "dark"} {
			for j, width := range []int64{1280, 390} {
				if testing.Short() && len(name)%4 != 2*i+j {
					continue
				}
				t.Run(fmt.Sprintf("%s-%s-%d", name, scheme, width), func(t *testing.T) { b.lookAt(t, address, scheme, width) })
			}
		}
	}
}

func (b *browser) lookAt(t *testing.T, address, scheme string, width int64) {
	do(t, b, func(ctx context.Context, tab *chromedp.Target) (cdp.Empty, error) {
		features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
		return cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
	})
	do(t, b, chromedp.EmulateViewport(width, 800))
	do(t, b, chromedp.Navigate(address))
	do(t, b, chromedp.WaitVisible(chromedp.CSS("main")))
	if do(t, b, chromedp.Evaluate[bool]("document.documentElement.scrollWidth > document.documentElement.clientWidth")) {
		t.Error("the page is wider than the window")
	}
	if dir := os.Getenv("LRB_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(t.Name())+".png"), do(t, b, chromedp.FullScreenshot(100)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.checkAccessibility(t)
	for len(b.problems) > 0 {
		t.Errorf("the browser says: %s", <-b.problems)
	}
}

func (b *browser) checkAccessibility(t *testing.T) {
	t.Helper()
	do(t, b, chromedp.Evaluate[int](axe+"; 0"))
	found := do(t, b, chromedp.Evaluate[string](
		`axe.run().then(r => JSON.stringify(r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => n.html + " " + n.failureSummary)}))))`, chromedp.EvalAwaitPromise))
	var violations []struct {
		ID, Help string
		Nodes    []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Errorf("%s: %s\n%s", v.ID, v.Help, strings.Join(v.Nodes[:min(3, len(v.Nodes))], "\n"))
	}
}
