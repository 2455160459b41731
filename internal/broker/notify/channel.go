package notify

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"time"
)

// Channel is a receiver of events.
type Channel struct {
	// Name identifies the channel and its cursor. The cursor of a channel that is deleted is deleted as
	// well, so another channel with this name begins at the end of the journal.
	Name string
	// Events are patterns of types, in which * stands for any text. The channel receives an event if
	// one of them matches.
	Events []string
	// Requesters limits the channel to events about the reservations of these clusters; empty for no
	// limit.
	Requesters []string
	// GroupWait is how long a message waits for more events after its first one. CloudEvents are sent
	// one by one.
	GroupWait time.Duration
	// URL is the https address that receives CloudEvents, without user name and password; "" for a
	// channel of another kind.
	URL string
	// Slack sends the messages to an incoming webhook of Slack, whose URL is in the Secret.
	Slack bool
	// Email sends the messages by e-mail; nil for a channel of another kind.
	Email *Email
	// Files writes records of the journal to files on the broker's volume; nil for a channel of another
	// kind.
	Files *Files
	// Secret is the name of the Secret with the keys for signatures, the URL of the incoming webhook
	// or the credentials of the mail server; "" for none. SecretKey is the key in the Secret under which
	// the keys for signatures or the URL are.
	Secret, SecretKey string
}

// Files says how records are kept in files.
type Files struct {
	// KeepDays is for how many days the broker keeps complete files; 0 means that it deletes none.
	KeepDays int
}

// Email says how messages are sent by e-mail.
type Email struct {
	// From and To are addresses, for example ops@example.com.
	From string
	To   []string
	// Server is the mail server as host:port.
	Server string
	// TLS is StartTLS, ImplicitTLS or NoTLS.
	TLS string
}

// Modes of Email.TLS.
const (
	// StartTLS begins the connection in plain text, upgrades it to TLS, and fails if the server does
	// not support that.
	StartTLS = "StartTLS"
	// ImplicitTLS uses TLS from the first byte, usually on port 465.
	ImplicitTLS = "Implicit"
	// NoTLS sends messages in plain text, without credentials.
	NoTLS = "None"
)

// Selects reports whether the channel receives an event.
func (c *Channel) Selects(e *Event) bool {
	if len(c.Requesters) > 0 && !slices.Contains(c.Requesters, e.Data.Requester) {
		return false
	}
	if e.Type == Record {
		return c.TakesRecords()
	}
	return slices.ContainsFunc(c.Events, func(pattern string) bool { return matchesPattern(pattern, e.Type) })
}

// TakesRecords reports whether the channel wants the records of the journal.
func (c *Channel) TakesRecords() bool { return slices.Contains(c.Events, string(Record)) }

func matchesPattern(pattern string, t Type) bool {
	ok, err := path.Match(pattern, string(t))
	return err == nil && ok
}

// Check returns an error that names an invalid field and how to correct it.
func (c *Channel) Check() error {
	for _, pattern := range c.Events {
		if pattern == string(Record) && (c.Email != nil || c.Slack) {
			return fmt.Errorf("events: %s is for programs: use cloudEvents or files", Record)
		}
		if pattern != string(Record) && !slices.ContainsFunc(Types, func(t Type) bool { return matchesPattern(pattern, t) }) {
			return fmt.Errorf("events: %q matches no event: write a type such as %s, or a pattern such as reservation.* or *", pattern, Active)
		}
	}
	switch {
	case c.Files != nil:
		return c.checkFiles()
	case c.Email != nil:
		return c.Email.checkEmail()
	case c.Slack:
		return nil // its URL is in a Secret, and checked before it is used
	}
	if err := CheckURL(c.URL); err != nil {
		return fmt.Errorf("cloudEvents.url: %w", err)
	}
	return nil
}

// checkFiles returns an error for settings with which files would lack records, because a file with
// gaps cannot be verified.
func (c *Channel) checkFiles() error {
	if len(c.Events) != 1 || !c.TakesRecords() {
		return fmt.Errorf("events: files contain the records of the journal: write events: [%s]", Record)
	}
	if len(c.Requesters) > 0 {
		return errors.New("requesters: files contain all records, so that they can be verified: leave requesters out")
	}
	return nil
}

func (e *Email) checkEmail() error {
	for _, address := range append([]string{e.From}, e.To...) {
		if parsed, err := mail.ParseAddress(address); err != nil || parsed.Address != address {
			return fmt.Errorf("email: %q is no e-mail address: write one such as ops@example.com", address)
		}
	}
	host, _, err := net.SplitHostPort(e.Server)
	if err != nil || host == "" {
		return fmt.Errorf("email.server: %q must be host:port, for example mail.example.com:587", e.Server)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if err := CheckAddress(ip); err != nil {
			return fmt.Errorf("email.server: %w", err)
		}
	}
	return nil
}

// CheckURL returns an error for a URL to which the broker must not send. It does not resolve host
// names; their addresses are checked when the broker connects.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%q is no URL: %w", text, err)
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%q must be an https:// address without user name, password and fragment", text)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return CheckAddress(ip)
	}
	return nil
}

// ErrAddressRefused is wrapped by errors about addresses to which the broker must not send.
var ErrAddressRefused = errors.New("the broker sends no events there: use an address that other machines can reach")

// metadata are the addresses of cloud metadata services, which hand out the machine's credentials.
// 169.254.169.254 is missing because it is link-local.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"), netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
}

// embedding maps ranges of IPv6 addresses that contain an IPv4 address to the index of the byte at
// which that address begins.
var embedding = map[netip.Prefix]int{
	netip.MustParsePrefix("::/96"): 12, netip.MustParsePrefix("64:ff9b::/96"): 12, netip.MustParsePrefix("2002::/16"): 2,
}

// thisNetwork is the range of IPv4 addresses that mean the machine itself.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// CheckAddress returns an error that wraps ErrAddressRefused for an address that reaches only this
// machine or its neighbours: loopback, link-local, unspecified, multicast and broadcast addresses,
// and the metadata services of clouds. Otherwise a user who may edit channels could send requests
// to services that only the broker's machine can reach.
func CheckAddress(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	kind := ""
	switch {
	case !ip.IsValid():
		kind = "no address"
	case ip.IsLoopback():
		kind = "a loopback address"
	case ip.IsUnspecified(), thisNetwork.Contains(ip):
		kind = "an unspecified address"
	case ip.IsLinkLocalUnicast():
		kind = "a link-local address"
	case ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		kind = "a multicast address"
	case slices.Contains(metadata, ip):
		kind = "the metadata service of a cloud"
	}
	if kind != "" {
		return fmt.Errorf("%s is %s: %w", ip, kind, ErrAddressRefused)
	}
	for prefix, at := range embedding {
		if prefix.Contains(ip) {
			bytes := ip.As16()
			return CheckAddress(netip.AddrFrom4([4]byte(bytes[at : at+4])))
		}
	}
	return nil
}
