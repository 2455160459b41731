package receivertest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Credentials that the mail server accepts.
const (
	Username = "broker"
	Password = "let me in"
)

// newCertificate returns a self-signed certificate for localhost in PEM, which is its own CA, and the TLS
// configuration of a server with this certificate.
func newCertificate(t *testing.T) ([]byte, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	runtest.Check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "receiver"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	runtest.Check(t, err)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), config
}

// NewMail starts a mail server that requires TLS and credentials. If implicit is true, connections
// begin with TLS, otherwise with STARTTLS. The receiver's URL is host:port. It also returns the CA
// of its certificate in PEM.
func NewMail(t *testing.T, implicit bool) (*Receiver, []byte) {
	t.Helper()
	authority, config := newCertificate(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	runtest.Check(t, err)
	r := &Receiver{URL: net.JoinHostPort("localhost", port)}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				s := &mailSession{receiver: r, config: config, conn: conn}
				if implicit {
					s.conn, s.isSecure = tls.Server(conn, config), true
				}
				_ = s.converse() // clients may be killed at any time
				_ = s.conn.Close()
			}()
		}
	}()
	return r, authority
}

// mailSession is one connection to the mail server.
type mailSession struct {
	receiver *Receiver
	config   *tls.Config
	conn     net.Conn
	in       *bufio.Reader

	isSecure, isKnown bool
	to                []string
}

var errQuit = errors.New("quit")

func (s *mailSession) converse() error {
	s.in = bufio.NewReader(s.conn)
	if err := s.say("220 localhost ESMTP"); err != nil {
		return err
	}
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return err
		}
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err := s.answer(strings.ToUpper(verb), rest); err != nil {
			return err
		}
	}
}

func (s *mailSession) say(lines ...string) error {
	_, err := io.WriteString(s.conn, strings.Join(lines, "\r\n")+"\r\n")
	return err
}

func (s *mailSession) answer(verb, rest string) error {
	switch verb {
	case "EHLO":
		if s.isSecure {
			return s.say("250-localhost", "250 AUTH PLAIN")
		}
		return s.say("250-localhost", "250 STARTTLS")
	case "STARTTLS":
		if err := s.say("220 go on"); err != nil {
			return err
		}
		s.conn, s.isSecure = tls.Server(s.conn, s.config), true
		s.in = bufio.NewReader(s.conn)
		return nil
	case "AUTH":
		_, initial, _ := strings.Cut(rest, " ")
		text, err := base64.StdEncoding.DecodeString(initial)
		if s.isKnown = err == nil && string(text) == "\x00"+Username+"\x00"+Password; !s.isKnown {
			return s.say("535 wrong credentials")
		}
		return s.say("235 welcome")
	case "MAIL":
		if !s.isSecure || !s.isKnown {
			return s.say("530 authenticate first")
		}
		s.to = nil
		return s.say("250 ok")
	case "RCPT":
		s.to = append(s.to, rest)
		return s.say("250 ok")
	case "DATA":
		return s.readMessage()
	case "QUIT":
		return errors.Join(s.say("221 bye"), errQuit)
	}
	return s.say("250 ok")
}

func (s *mailSession) readMessage() error {
	if err := s.say("354 go on"); err != nil {
		return err
	}
	var text strings.Builder
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return err
		}
		if line == ".\r\n" {
			break
		}
		text.WriteString(strings.TrimPrefix(line, "."))
	}
	m, err := mail.ReadMessage(strings.NewReader(text.String()))
	if err != nil {
		err = fmt.Errorf("no e-mail: %w: %s", err, text.String())
		s.receiver.accept(Received{}, err)
		return err
	}
	body, err := io.ReadAll(m.Body)
	if err != nil {
		return err
	}
	got := Received{ID: strings.Trim(m.Header.Get("Message-Id"), "<>"), Subject: m.Header.Get("Subject"), Text: string(body)}
	if !s.receiver.accept(got, nil) {
		return s.say("451 not now")
	}
	return s.say("250 ok")
}
