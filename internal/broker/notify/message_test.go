package notify_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// happened returns an event whose time is position seconds after the start.
func happened(position uint64, t notify.Type, subject string, d notify.Data) notify.Event {
	d.Position, d.Time = position, start.Add(time.Duration(position)*time.Second)
	if d.Message == "" {
		d.Message = fmt.Sprintf("%s of %s", t, subject)
	}
	return notify.Event{Type: t, Subject: subject, Data: d}
}

func TestMessagesSumUpWhatIsSimilarAndOmitWhatIsRepeated(t *testing.T) {
	moves := func(from string, n int) (out []notify.Event) {
		for i := range n {
			out = append(out, happened(uint64(i+1), notify.Moved, fmt.Sprintf("res-%d", i+1), notify.Data{From: from, Provider: "paris"}))
		}
		return out
	}
	cases := map[string]struct {
		events      []notify.Event
		title       string
		wantedLines []string
	}{
		"one event": {
			moves("oslo", 1), "reservation.moved of res-1", []string{"2030-01-01T08:00:01Z reservation.moved of res-1"},
		},
		"three similar events": {
			moves("oslo", 3), "reservation.moved of res-1 (and 2 more)", []string{
				"2030-01-01T08:00:01Z reservation.moved of res-1", "2030-01-01T08:00:02Z reservation.moved of res-2", "2030-01-01T08:00:03Z reservation.moved of res-3",
			},
		},
		"a storm": {
			append([]notify.Event{happened(0, notify.ClusterSilent, "oslo", notify.Data{})}, moves("oslo", 17)...), "cluster.silent of oslo (and 1 more)", []string{
				"2030-01-01T08:00:00Z cluster.silent of oslo", "2030-01-01T08:00:17Z 17 reservations moved from oslo: res-1, res-2, res-3 and 14 more",
			},
		},
		"a cluster that comes and goes": {
			[]notify.Event{
				happened(1, notify.ClusterSilent, "oslo", notify.Data{Message: "silent since 1"}), happened(2, notify.ClusterBack, "oslo", notify.Data{}),
				happened(3, notify.ClusterSilent, "oslo", notify.Data{Message: "silent since 3"}), happened(4, notify.ClusterSilent, "bern", notify.Data{}),
			}, "cluster.back of oslo (and 2 more)",
			[]string{"2030-01-01T08:00:02Z cluster.back of oslo", "2030-01-01T08:00:03Z silent since 3", "2030-01-01T08:00:04Z cluster.silent of bern"},
		},
		"a text with line breaks and changes of direction": {
			[]notify.Event{happened(1, notify.Failed, "res-1", notify.Data{Message: "one\r\nBcc: x@example.com\u202e"})}, "one  Bcc: x@example.com ",
			[]string{"2030-01-01T08:00:01Z one  Bcc: x@example.com "},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := notify.Compose("chat", "j", tc.events)
			first, last := tc.events[0].ID("j"), tc.events[len(tc.events)-1].ID("j")
			want := notify.Message{
				ID: first + "_" + last, Title: tc.title, Lines: tc.wantedLines,
				Footer: "liqo-resource-broker, channel chat, events " + first + " to " + last,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongMessagesStayWithinTheLimitsOfChats(t *testing.T) {
	var events []notify.Event
	for i := range 2000 {
		events = append(events, happened(uint64(i), notify.Types[i%len(notify.Types)], strings.Repeat("é", 300)+fmt.Sprint(i), notify.Data{Provider: fmt.Sprint(i)}))
	}
	m := notify.Compose("chat", "j", events)
	text, err := m.Slack()
	runtest.Check(t, err)
	if len(m.Lines) != 40 || m.Lines[39] != "and 1961 more" || len(m.Title) > 200 || len(text) > 40_000 {
		t.Errorf("%d lines, the last is %q; a title of %d bytes; %d bytes for Slack", len(m.Lines), m.Lines[len(m.Lines)-1], len(m.Title), len(text))
	}
	var decoded struct{ Text string }
	if err := json.Unmarshal(text, &decoded); err != nil || !strings.HasPrefix(decoded.Text, m.Lines[0]) {
		t.Errorf("%v: %.100s", err, decoded.Text)
	}
}

func TestMembersMentionNobodyInChats(t *testing.T) {
	m := notify.Compose("chat", "j", []notify.Event{happened(1, notify.Failed, "res-1", notify.Data{Message: "@all <!here> [go](https://a.example)\u2028x"})})
	text, err := m.Slack()
	runtest.Check(t, err)
	var decoded struct{ Text string }
	runtest.Check(t, json.Unmarshal(text, &decoded))
	for _, wrong := range []string{"@all", "<!here>", "](", "://", "\u2028"} {
		if strings.Contains(decoded.Text, wrong) {
			t.Errorf("%q is in %q", wrong, decoded.Text)
		}
	}
}

func TestEveryTypeHasADigest(t *testing.T) {
	for _, kind := range notify.Types {
		var events []notify.Event
		for i := range 5 {
			events = append(events, happened(uint64(i), kind, fmt.Sprint("s", i), notify.Data{Provider: "paris"}))
		}
		if got := notify.Compose("chat", "j", events).Lines; len(got) != 1 || !regexp.MustCompile(`Z 5 [a-zA-Z ]{10,}( paris)?: s0, s1, s2 and 2 more$`).MatchString(got[0]) {
			t.Errorf("%s: %q", kind, got)
		}
	}
}

func TestEveryTypeIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/notifications.md")
	runtest.Check(t, err)
	var got []notify.Type
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains([]string{"id", "sequence", "type", "subject", "data"}, row[1]) {
			got = append(got, notify.Type(row[1]))
		}
	}
	if diff := cmp.Diff(append(slices.Clone(notify.Types), notify.Record), got); diff != "" {
		t.Errorf("docs/notifications.md lists other types (-code +page):\n%s", diff)
	}
}

func TestWrongEmailIsRefusedWithItsRemedy(t *testing.T) {
	cases := map[string]struct {
		email notify.Email
		want  string
	}{
		"a good one":          {notify.Email{From: "a@example.com", To: []string{"b@example.com"}, Server: "mail.example.com:587"}, ""},
		"a name beside":       {notify.Email{From: "A <a@example.com>", To: []string{"b@example.com"}, Server: "m:25"}, `"A <a@example.com>" is no e-mail address: write one such as ops@example.com`},
		"an injected header":  {notify.Email{From: "a@example.com", To: []string{"b@example.com\r\nBcc: c@example.com"}, Server: "m:25"}, "is no e-mail address"},
		"a server of its own": {notify.Email{From: "a@example.com", To: []string{"b@example.com"}, Server: "[::1]:25"}, "email.server: ::1 is a loopback address"},
		"no port":             {notify.Email{From: "a@example.com", To: []string{"b@example.com"}, Server: "mail"}, `email.server: "mail" must be host:port`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := (&notify.Channel{Name: "mail", Events: []string{"*"}, Email: &tc.email}).Check()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
