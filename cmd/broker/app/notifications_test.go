package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/outbox/receivertest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// audience holds one receiver of each kind.
type audience struct {
	s               *site
	bus, chat, mail *receivertest.Receiver
}

// notify starts an audience and configures a channel for each of its receivers.
func (s *site) notify() *audience {
	s.t.Helper()
	a := &audience{s: s}
	var authorities [3][]byte
	a.bus, authorities[0] = receivertest.NewCloudEvents(s.t)
	a.chat, authorities[1] = receivertest.NewSlack(s.t)
	a.mail, authorities[2] = receivertest.NewMail(s.t, false)
	s.check(s.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: brokerNamespace, Name: "notifications"},
		Data: map[string][]byte{
			"secret": []byte(receivertest.Key), "url": []byte(a.chat.URL), "ca.crt": slices.Concat(authorities[:]...),
			"username": []byte(receivertest.Username), "password": []byte(receivertest.Password),
		},
	}))
	key, wait := brokerv1alpha1.SecretKeyRef{Name: "notifications"}, &metav1.Duration{Duration: time.Second}
	all := []string{"*"}
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}}
	config.Spec.Notifications = []brokerv1alpha1.NotificationChannel{
		{Name: "bus", Events: all, CloudEvents: &brokerv1alpha1.CloudEventsTarget{URL: a.bus.URL, SecretRef: key}},
		{Name: "chat", Events: all, GroupWait: wait, Slack: &brokerv1alpha1.SlackTarget{SecretRef: key}},
		{Name: "mail", Events: all, GroupWait: wait, Email: &brokerv1alpha1.EmailTarget{
			From: "broker@example.com", To: []string{"ops@example.com"}, Server: a.mail.URL, SecretRef: &brokerv1alpha1.SecretRef{Name: "notifications"},
		}},
	}
	s.check(s.Create(s.t.Context(), config))
	s.await("cursors", func() error {
		return s.Get(s.t.Context(), client.ObjectKey{Namespace: brokerNamespace, Name: broker.JournalName + "-notifications"}, &corev1.ConfigMap{})
	})
	return a
}

// journalIDs returns the IDs of all events in the journal, in order.
func (s *site) journalIDs() []string {
	s.t.Helper()
	store, err := journal.NewConfigMaps(s.plane.RESTConfig(), brokerNamespace)
	s.check(err)
	end, err := journal.End(s.t.Context(), store, broker.JournalName, journal.Options{})
	s.check(err)
	w, state, err := journal.Walk(s.t.Context(), store, broker.JournalName, journal.Options{}, journal.Place{Journal: end.Journal})
	s.check(err)
	if state != nil {
		s.t.Fatal("the journal has no beginning")
	}
	book, out := notify.NewBook(ledger.New(), false), []string{}
	for {
		entries, err := w.Next(s.t.Context())
		s.check(err)
		if len(entries) == 0 {
			return out
		}
		for i := range entries {
			events, err := book.Read(&entries[i])
			s.check(err)
			for n := range events {
				out = append(out, events[n].ID(end.Journal))
			}
		}
	}
}

// coveredBy names the first and the last event of a message for people.
var coveredBy = regexp.MustCompile(`events (\S+) to (\S+)`)

// rangesOf returns the IDs of the events that messages cover, in the order of the messages. order contains all events
// in the order of the journal. It returns an error if a message names no events or unknown ones.
func rangesOf(all, order []string) ([]string, error) {
	var out []string
	for i, text := range all {
		ends := coveredBy.FindStringSubmatch(strings.ReplaceAll(text, "=\r\n", ""))
		if ends == nil {
			return nil, fmt.Errorf("message %d names no events: %s", i, text)
		}
		from, to := slices.Index(order, ends[1]), slices.Index(order, ends[2])
		if from < 0 || to < from {
			return nil, fmt.Errorf("message %d has unknown events: %s", i, text)
		}
		out = append(out, order[from:to+1]...)
	}
	return out, nil
}

// check returns an error unless every receiver has received all events of the journal, from the first one that it
// received to the last, in the order of the journal. An event that arrived again is counted the first time only.
func (a *audience) check(t *testing.T, order []string) error {
	t.Helper()
	got := map[string][]string{}
	var texts [2][]string
	for _, m := range a.bus.Received(t) {
		got["bus"] = append(got["bus"], m.ID)
	}
	for i, r := range []*receivertest.Receiver{a.chat, a.mail} {
		for _, m := range r.Received(t) {
			texts[i] = append(texts[i], m.Text)
		}
		var err error
		if got[[]string{"chat", "mail"}[i]], err = rangesOf(texts[i], order); err != nil {
			return err
		}
	}
	for _, channel := range []string{"bus", "chat", "mail"} {
		if len(got[channel]) == 0 {
			return fmt.Errorf("%s has got nothing", channel)
		}
		var firsts []string
		seen := map[string]bool{}
		for _, id := range got[channel] {
			if !seen[id] {
				firsts = append(firsts, id)
			}
			seen[id] = true
		}
		begin := slices.Index(order, firsts[0])
		if begin < 0 {
			return fmt.Errorf("%s has got %s first, which is not in the journal", channel, firsts[0])
		}
		if want := order[begin:]; !slices.Equal(firsts, want) {
			return fmt.Errorf("%s has got %d different events of %d, in this order: %v; want %v", channel, len(firsts), len(want), firsts, want)
		}
	}
	return nil
}

// settle waits until all events have arrived.
func (a *audience) settle() {
	a.s.t.Helper()
	a.s.await("all events", func() error { return a.check(a.s.t, a.s.journalIDs()) })
	a.s.t.Logf("%d events: %d CloudEvents, %d chat messages, %d e-mails", len(a.s.journalIDs()),
		len(a.bus.Received(a.s.t)), len(a.chat.Received(a.s.t)), len(a.mail.Received(a.s.t)))
}

// reserveAndRelease makes and releases as many reservations as turns says, each of which causes several events.
func (s *site) reserveAndRelease(urls []string, turns int, name string) {
	s.t.Helper()
	rome := s.connect("rome", urls...)
	for i := range turns {
		key := fmt.Sprintf("%s-%d", name, i)
		s.persist("reserve "+key, func(ctx context.Context) error {
			_, err := rome.RequestReservation(ctx, key, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}})
			return err
		})
		s.persist("release "+key, func(ctx context.Context) error {
			_, err := rome.ReleaseReservation(ctx, key, "")
			return err
		})
	}
}

// TestNotificationsArriveInOrderWhateverIsKilled kills the leader several times while a receiver is down.
func TestNotificationsArriveInOrderWhateverIsKilled(t *testing.T) {
	s := newSite(t, 2)
	s.lend("paris", "1000")
	a := s.notify()
	urls := []string{s.replicas[0].url, s.replicas[1].url}
	for round, down := range []*receivertest.Receiver{a.bus, a.chat, a.mail} {
		leader, _ := s.leader(nil)
		down.SetDown(true)
		s.reserveAndRelease(urls, 10, fmt.Sprintf("before%d", round))
		leader.Kill()
		down.SetDown(false) // the next leader need not wait for a retry
		s.leader(leader)
		s.reserveAndRelease(urls, 10, fmt.Sprintf("after%d", round))
		s.check(leader.Start())
		s.awaitReady(leader)
	}
	a.settle()
}

// TestKillAtEveryPointOfADeliveryLosesNothing kills the broker after a delivery that no cursor covers,
// and after the cursors were stored.
func TestKillAtEveryPointOfADeliveryLosesNothing(t *testing.T) {
	s := newSite(t, 0)
	killed := t.TempDir()
	s.env = failpoint.Arm(killed, failpoint.EventDelivered.After(3), failpoint.CursorsStored.After(2))
	s.replicas = append(s.replicas, s.startReplica("broker-0"))
	s.lend("paris", "1000")
	a := s.notify()
	s.await("kills at every point", func() error {
		s.reserveAndRelease([]string{s.replicas[0].url}, 2, fmt.Sprintf("at-%d", time.Now().UnixNano()))
		markers, err := os.ReadDir(killed)
		if err == nil && len(markers) < len(failpoint.Notifying) {
			err = fmt.Errorf("%d of %d points have killed the broker", len(markers), len(failpoint.Notifying))
		}
		return err
	})
	a.settle()
}

// TestAdministratorsTestAChannel asks for test events, like kubectl broker notify test.
func TestAdministratorsTestAChannel(t *testing.T) {
	s := newSite(t, 2)
	a := s.notify()
	for _, tc := range []struct{ channel, says string }{
		{"bus", "the receiver has accepted the event"},
		{"mail", "the receiver has accepted the event"},
		{"none", `spec.notifications of the BrokerConfig has no channel "none"`},
	} {
		config := &brokerv1alpha1.BrokerConfig{}
		key := client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}
		s.check(s.Get(t.Context(), key, config))
		before := config.DeepCopy()
		test := tc.channel + "/first"
		metav1.SetMetaDataAnnotation(&config.ObjectMeta, brokerv1alpha1.NotifyTestAnnotation, test)
		s.check(s.Patch(t.Context(), config, client.MergeFrom(before)))
		s.await("the result of "+test, func() error {
			if err := s.Get(t.Context(), key, config); err != nil {
				return err
			}
			c := meta.FindStatusCondition(config.Status.Conditions, brokerv1alpha1.ConditionNotificationTested)
			if c == nil || c.Message != test+": "+tc.says {
				return fmt.Errorf("the condition is %+v", c)
			}
			return nil
		})
	}
	got := a.bus.Received(t)
	if !slices.ContainsFunc(got, func(m receivertest.Received) bool {
		return m.ID == "test-first-0-0" && m.Type == "eu.fluidos.broker.notification.test.v1"
	}) {
		t.Errorf("the bus has got %+v", got)
	}
	s.await("the e-mail", func() error {
		if len(a.mail.Received(t)) == 0 {
			return errors.New("none has arrived")
		}
		return nil
	})
}
