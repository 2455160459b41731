package outbox

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/outbox/receivertest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// secretsOf returns Options that read Secrets from a map, and allow receivers on this machine.
func secretsOf(secrets map[string]map[string][]byte) *Options {
	return &Options{
		Now: time.Now, Loopback: true,
		Secret: func(_ context.Context, name string) (map[string][]byte, error) {
			if secrets[name] == nil {
				return nil, errors.New("not found")
			}
			return secrets[name], nil
		},
	}
}

func joined(id string) []notify.Event {
	return []notify.Event{{Type: notify.ClusterJoined, Subject: id, Data: notify.Data{
		Position: 7, Time: time.Date(2030, 1, 1, 8, 0, 0, 0, time.UTC), Message: "cluster " + id + " takes part",
	}}}
}

func TestReceiverVerifiesTheSignature(t *testing.T) {
	receiver, authority := receivertest.NewCloudEvents(t)
	p := newPost(secretsOf(map[string]map[string][]byte{"bus": {"secret": []byte(receivertest.Key), "ca.crt": authority}}))
	c := &notify.Channel{Name: "bus", URL: receiver.URL, Secret: "bus", SecretKey: "secret"}
	runtest.Check(t, p.sendEvents(t.Context(), c, "j", joined("rome")))
	want := []receivertest.Received{{
		ID: "j-7-0", Type: "eu.fluidos.broker.cluster.joined.v1", Subject: "rome", Sequence: "00000000000000000007.00000", Text: "cluster rome takes part",
	}}
	if got := receiver.Received(t); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	receiver.SetDown(true)
	if err := p.sendEvents(t.Context(), c, "j", joined("rome")); err == nil || !strings.Contains(err.Error(), `the receiver answered 503 Service Unavailable: "not now`) {
		t.Errorf("an error of the receiver: %v", err)
	}
}

func TestSlackGetsTextWithoutMentions(t *testing.T) {
	receiver, authority := receivertest.NewSlack(t)
	p := newPost(secretsOf(map[string]map[string][]byte{"chat": {"url": []byte(receiver.URL + "\n"), "ca.crt": authority}}))
	c := &notify.Channel{Name: "chat", Slack: true, Secret: "chat", SecretKey: "url"}
	runtest.Check(t, p.sendEvents(t.Context(), c, "j", joined("<!channel>\n\u202erome")))
	want := []receivertest.Received{{
		Text: "2030-01-01T08:00:00Z cluster &lt;!channel&gt;  rome takes part\n\nliqo-resource-broker, channel chat, events j-7-0 to j-7-0\n",
	}}
	if got := receiver.Received(t); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func TestEmailIsSentWithTLSAndCredentials(t *testing.T) {
	for mode, implicit := range map[string]bool{notify.StartTLS: false, notify.ImplicitTLS: true} {
		t.Run(mode, func(t *testing.T) {
			receiver, authority := receivertest.NewMail(t, implicit)
			secret := map[string][]byte{"username": []byte(receivertest.Username), "password": []byte(receivertest.Password), "ca.crt": authority}
			p := newPost(secretsOf(map[string]map[string][]byte{"mail": secret}))
			c := &notify.Channel{Name: "mail", Secret: "mail", Email: &notify.Email{From: "broker@example.com", To: []string{"ops@example.com"}, Server: receiver.URL, TLS: mode}}
			runtest.Check(t, p.sendEvents(t.Context(), c, "j", joined("rome")))
			want := []receivertest.Received{{
				ID: "j-7-0_j-7-0@example.com", Subject: "cluster rome takes part",
				Text: "2030-01-01T08:00:00Z cluster rome takes part\r\n\r\nliqo-resource-broker, channel mail, events j-7-0 to j-7-0\r\n",
			}}
			if got := receiver.Received(t); !cmp.Equal(got, want) {
				t.Error(cmp.Diff(want, got))
			}
			// After a failed delivery the Secret is read again.
			secret["password"] = []byte("wrong")
			p.forgetSecret("mail")
			if err := p.sendEvents(t.Context(), c, "j", joined("rome")); err == nil || !strings.Contains(err.Error(), "wrong credentials") {
				t.Errorf("with the wrong password: %v", err)
			}
			secret["password"] = []byte(receivertest.Password)
			if err := p.sendEvents(t.Context(), c, "j", joined("rome")); err != nil {
				t.Errorf("with the right password again: %v", err)
			}
		})
	}
}

func TestEmailIsNotSentToAServerWithAnUnknownCertificate(t *testing.T) {
	receiver, _ := receivertest.NewMail(t, false)
	p := newPost(secretsOf(map[string]map[string][]byte{"other": {"ca.crt": []byte("no certificate")}}))
	c := &notify.Channel{Name: "mail", Email: &notify.Email{From: "broker@example.com", To: []string{"ops@example.com"}, Server: receiver.URL, TLS: notify.StartTLS}}
	if err := p.sendEvents(t.Context(), c, "j", joined("rome")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server whose CA is unknown: %v", err)
	}
	c.Secret = "other"
	if err := p.sendEvents(t.Context(), c, "j", joined("rome")); err == nil || !strings.Contains(err.Error(), "key ca.crt contains no certificate in PEM") {
		t.Errorf("a CA that is none: %v", err)
	}
	if len(receiver.Received(t)) > 0 {
		t.Error("a message was sent")
	}
}

func TestNothingIsSentToThisMachineOrAfterARedirect(t *testing.T) {
	receiver, authority := receivertest.NewCloudEvents(t)
	options := secretsOf(map[string]map[string][]byte{"bus": {"secret": []byte(receivertest.Key), "ca.crt": authority}})
	c := &notify.Channel{Name: "bus", URL: receiver.URL, Secret: "bus", SecretKey: "secret"}
	options.Loopback = false
	if err := newPost(options).sendEvents(t.Context(), c, "j", joined("rome")); !errors.Is(err, notify.ErrAddressRefused) {
		t.Errorf("a name that points to this machine: %v", err)
	}
	options.Loopback = true
	moved := httptest.NewTLSServer(http.RedirectHandler(receiver.URL, http.StatusTemporaryRedirect))
	t.Cleanup(moved.Close)
	p := newPost(options)
	s, err := p.secretOf(t.Context(), c)
	runtest.Check(t, err)
	s.tls.RootCAs.AddCert(moved.Certificate())
	c.URL = moved.URL
	if err := p.sendEvents(t.Context(), c, "j", joined("rome")); err == nil || !strings.Contains(err.Error(), "the receiver answered 307") {
		t.Errorf("a redirect: %v", err)
	}
	if got := receiver.Received(t); len(got) > 0 {
		t.Errorf("received %v", got)
	}
}

func TestProblemsOfSecretsNameTheRemedy(t *testing.T) {
	p := newPost(secretsOf(map[string]map[string][]byte{"bad": {"secret": []byte("short"), "url": []byte("http://hooks.example/T0/secret")}}))
	cases := map[string]struct {
		channel notify.Channel
		want    string
	}{
		"no Secret":         {notify.Channel{Name: "bus", URL: "https://bus.example", Secret: "none"}, `reading Secret "none": not found`},
		"no signing key":    {notify.Channel{Name: "bus", URL: "https://bus.example", Secret: "bad", SecretKey: "other"}, `key "other" of Secret "bad": it has no key: make one with: echo whsec_$(openssl rand -base64 32)`},
		"a bad signing key": {notify.Channel{Name: "bus", URL: "https://bus.example", Secret: "bad", SecretKey: "secret"}, `key "secret" of Secret "bad": it has a key that is not whsec_`},
		"a URL without TLS": {notify.Channel{Name: "chat", Slack: true, Secret: "bad", SecretKey: "url"}, `key "url" of Secret "bad" must contain the https:// URL of an incoming webhook`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := p.sendEvents(t.Context(), &tc.channel, "j", joined("rome"))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "T0/secret") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestErrorsDoNotShowTheURLOfAnIncomingWebhook(t *testing.T) {
	for _, secret := range []string{"https://localhost:1/T0/very-secret", "https://localhost:1/T0/\u00e9/very-secret"} {
		p := newPost(secretsOf(map[string]map[string][]byte{"chat": {"url": []byte(secret)}}))
		err := p.sendEvents(t.Context(), &notify.Channel{Name: "chat", Slack: true, Secret: "chat", SecretKey: "url"}, "j", joined("rome"))
		if err == nil || strings.Contains(err.Error(), "very-secret") || !strings.Contains(err.Error(), "the incoming webhook") {
			t.Errorf("%s: got %v", secret, err)
		}
	}
}
