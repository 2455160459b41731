package specs

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
)

const (
	// defaultGroupWait is how long a message waits for more events if the channel does not set
	// groupWait.
	defaultGroupWait = 30 * time.Second
	// Keys that are used if a channel does not name a key of its Secret.
	defaultSigningKey = "secret"
	defaultURLKey     = "url"
	// smtpsPort is the port of mail servers on which TLS begins with the connection.
	smtpsPort = ":465"
)

func readNotifications(list []brokerv1alpha1.NotificationChannel) ([]notify.Channel, error) {
	var out []notify.Channel
	for i := range list {
		c := readChannel(&list[i])
		if err := c.Check(); err != nil {
			return nil, fmt.Errorf("[%s].%w", c.Name, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func readChannel(set *brokerv1alpha1.NotificationChannel) notify.Channel {
	c := notify.Channel{Name: set.Name, Events: set.Events, Requesters: set.Requesters}
	switch {
	case set.CloudEvents != nil:
		c.URL, c.Secret = set.CloudEvents.URL, set.CloudEvents.SecretRef.Name
		c.SecretKey = cmp.Or(set.CloudEvents.SecretRef.Key, defaultSigningKey)
		return c
	case set.Files != nil:
		c.Files = &notify.Files{KeepDays: int(set.Files.KeepDays)}
		return c
	case set.Slack != nil:
		c.Slack, c.Secret = true, set.Slack.SecretRef.Name
		c.SecretKey = cmp.Or(set.Slack.SecretRef.Key, defaultURLKey)
	case set.Email != nil:
		e := set.Email
		c.Email = &notify.Email{From: e.From, To: e.To, Server: e.Server, TLS: e.TLS}
		if e.TLS == "" {
			c.Email.TLS = notify.StartTLS
			if strings.HasSuffix(e.Server, smtpsPort) {
				c.Email.TLS = notify.ImplicitTLS
			}
		}
		if e.SecretRef != nil {
			c.Secret = e.SecretRef.Name
		}
	}
	c.GroupWait = defaultGroupWait
	if set.GroupWait != nil {
		c.GroupWait = set.GroupWait.Duration
	}
	return c
}
