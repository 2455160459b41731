package outbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
)

func (p *post) sendEmail(ctx context.Context, e *notify.Email, s *secret, m *notify.Message) error {
	host, port, err := net.SplitHostPort(e.Server)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("email.server %q: the port is not a number", e.Server)
	}
	letter, err := composeMail(e, m, p.opts.Now())
	if err != nil {
		return err
	}
	dial := func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := p.dialAllowed(dialing, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() }) // without this, the conversation would continue after ctx has ended until a timeout
		}
		return conn, err
	}
	client, err := mail.NewClient(host, mailOptions(host, number, e, s, dial)...)
	if err != nil {
		return err
	}
	return client.DialAndSendWithContext(ctx, letter)
}

func mailOptions(host string, port int, e *notify.Email, s *secret, dial mail.DialContextFunc) []mail.Option {
	secure := s.tls.Clone()
	secure.ServerName = host
	policy, auth := mail.TLSMandatory, mail.SMTPAuthAutoDiscover
	switch e.TLS {
	case notify.ImplicitTLS:
		plain := dial
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := plain(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return tls.Client(conn, secure), nil
		}
		// go-mail does not know that the connection of a custom dialer is encrypted. With other settings, it would ask
		// for STARTTLS, and would not send the password.
		policy, auth = mail.NoTLS, mail.SMTPAuthPlain
	case notify.NoTLS:
		policy = mail.NoTLS
	}
	options := []mail.Option{
		mail.WithPort(port), mail.WithTimeout(sendTimeout), mail.WithHELO("liqo-resource-broker"),
		mail.WithTLSConfig(secure), mail.WithTLSPolicy(policy), mail.WithDialContextFunc(dial),
	}
	if user := string(s.data[keyUsername]); user != "" && e.TLS != notify.NoTLS {
		options = append(options, mail.WithSMTPAuth(auth), mail.WithUsername(user), mail.WithPassword(string(s.data[keyPassword])))
	}
	return options
}

func composeMail(e *notify.Email, m *notify.Message, now time.Time) (*mail.Msg, error) {
	out := mail.NewMsg()
	if err := out.From(e.From); err != nil {
		return nil, err
	}
	if err := out.To(e.To...); err != nil {
		return nil, err
	}
	_, domain, _ := strings.Cut(e.From, "@")
	out.SetMessageIDWithValue(m.ID + "@" + cmp.Or(domain, "localhost"))
	out.SetDateWithValue(now)
	out.SetGenHeader("Auto-Submitted", "auto-generated")
	out.Subject(m.Title)
	out.SetBodyString(mail.TypeTextPlain, m.Text())
	return out, nil
}
