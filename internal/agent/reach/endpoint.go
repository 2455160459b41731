package reach

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

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

// inClusterAddress returns the address at which pods of this cluster reach its API server. It
// returns "" outside a pod.
func inClusterAddress() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}
