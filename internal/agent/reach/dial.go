// Package reach probes whether this cluster reaches the API servers of other clusters, and measures
// the round-trip time to them.
package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dialTimeout limits one probe, from name resolution to the server's answer.
const dialTimeout = 5 * time.Second

// dialer connects to an address that another cluster has advertised, begins a TLS handshake and
// waits for an answer. It sends no credentials and no request. It accepts any certificate: it only
// shows that the server is reachable, and peering later checks the certificate with the CA from
// Liqo's handshake.
//
// The advertised address can be anything. The dialer therefore refuses addresses with which another
// cluster could make it connect to this machine or to a cloud's metadata service.
type dialer struct {
	rules Rules
	now   func() time.Time
}

func newDialer(own string, now func() time.Time) *dialer {
	return &dialer{rules: RulesFor(own), now: now}
}

// dialEndpoint returns the time to open the TCP connection, as a measure of the round-trip time.
func (d *dialer) dialEndpoint(ctx context.Context, endpoint string) (time.Duration, error) {
	address, name, err := addressOf(endpoint)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var began time.Time
	// The addresses of a name are tried one after the other, so began is finally the start of the
	// attempt that succeeded. Each address is checked immediately before the dialer connects to it.
	network := net.Dialer{FallbackDelay: -1, Control: func(_, address string, _ syscall.RawConn) error {
		began = d.now()
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return d.rules.CheckAddr(ap.Addr())
	}}
	connection, err := network.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, withoutAddresses(err)
	}
	roundTrip := d.now().Sub(began)
	defer connection.Close() //nolint:errcheck // no data was sent, so an error does not matter
	err = tls.Client(connection, &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
	if !hasAnswered(err) {
		return 0, withoutAddresses(err)
	}
	return max(roundTrip, 0), nil
}

// addressOf returns the host and port to connect to, and the server name for TLS.
func addressOf(endpoint string) (address, name string, err error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", "", errors.New("not an https address")
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port), u.Hostname(), nil
}

// hasAnswered counts errors about the server's certificate, and TLS alerts, as answers.
func hasAnswered(err error) bool {
	if err == nil {
		return true
	}
	if _, shown := errors.AsType[*tls.CertificateVerificationError](err); shown {
		return true
	}
	refused, ok := errors.AsType[*net.OpError](err)
	return ok && refused.Op == "remote error"
}

// withoutAddresses removes the address from an error, because the messages that contain the error name it.
func withoutAddresses(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", dialTimeout)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Timeout() {
			return fmt.Errorf("no answer within %s", dialTimeout)
		}
		return op.Err
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("the server does not speak TLS")
	}
	return err
}

// ChooseEndpoint returns the address of the API server that the agent advertises: the address in the flag, else the one
// that Liqo gives to peers, else host, the one in the kubeconfig. It returns "" rather than the address that pods use,
// because other clusters cannot reach it. The warning, if any, is for the log.
func ChooseEndpoint(flag, liqo, host string) (endpoint, warning string, err error) {
	source := "--endpoint-url"
	switch {
	case flag != "":
		endpoint = flag
		if liqo != "" && strings.TrimSuffix(liqo, "/") != strings.TrimSuffix(flag, "/") {
			warning = "WARNING: the agent advertises and probes --endpoint-url, but peers use Liqo's apiServer.address; set both to the same address"
		}
	case liqo != "":
		endpoint, source = liqo, "apiServer.address of Liqo's chart"
	case host == inClusterAddress():
		return "", "advertising no endpoint: neither --endpoint-url nor Liqo's apiServer.address is set, and other clusters cannot reach the address that pods use; the broker will not check whether this cluster is reachable", nil
	default:
		endpoint, source = host, "the kubeconfig"
	}
	u, err := url.Parse(endpoint)
	if err == nil && u.Port() != "" {
		_, err = strconv.ParseUint(u.Port(), 10, 16)
	}
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// The error omits the address, which may contain credentials.
		return "", "", fmt.Errorf("%s is not the https address of an API server: set --endpoint-url to one without user, query and fragment and with a port up to 65535, for example https://rome.example.com:6443", source)
	}
	return endpoint, warning, nil
}

// inClusterAddress returns the address of the API server for pods; "" outside a pod.
func inClusterAddress() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}
