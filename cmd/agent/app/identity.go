package app

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

// The ConfigMap in which Liqo stores its cluster ID, and the key of the ID.
const (
	liqoClusterIDConfigMap = "liqo-clusterid-configmap"
	liqoClusterIDKey       = "CLUSTER_ID"
)

// resolveSettings determines the peering mode, cluster ID, certificate and endpoint, as far as
// flags do not set them. It returns an error if two sources of a setting disagree.
func (a *agent) resolveSettings(ctx context.Context, config *rest.Config) error {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	installed, err := installation.Served(ctx, clientset.Discovery().RESTClient())
	if err != nil {
		return err
	}
	if err := a.resolveMode(installed); err != nil {
		return err
	}
	liqoID := ""
	if installed {
		if liqoID, err = a.readLiqoID(ctx, clientset); err != nil {
			return err
		}
	}
	if err := checkID(a.clusterID, liqoID); err != nil {
		return err
	}
	if err := a.openCertificate(ctx, clientset, liqoID); err != nil {
		return err
	}
	if err := a.resolveID(liqoID); err != nil {
		return err
	}
	liqoAddress := ""
	if installed {
		if liqoAddress, err = installation.APIServerAddress(ctx, clientset, a.liqoNamespace); err != nil {
			return err
		}
	}
	return a.resolveEndpoint(liqoAddress, config.Host)
}

// resolveEndpoint determines the address of the API server that the agent advertises: the address
// in the flag, else the one that Liqo gives to peers, else the one in the kubeconfig. The address
// that pods use is not advertised, because other clusters cannot reach it.
func (a *agent) resolveEndpoint(liqoAddress, host string) error {
	source := "--endpoint-url"
	switch {
	case a.endpointURL != "":
		if liqoAddress != "" && strings.TrimSuffix(liqoAddress, "/") != strings.TrimSuffix(a.endpointURL, "/") {
			a.log.Info("WARNING: the agent advertises and probes --endpoint-url, but peers use Liqo's apiServer.address; set both to the same address",
				"endpoint", a.endpointURL, "liqo", liqoAddress)
		}
	case liqoAddress != "":
		a.endpointURL, source = liqoAddress, "apiServer.address of Liqo's chart"
	case host == inClusterAddress():
		a.log.Info("advertising no endpoint: neither --endpoint-url nor Liqo's apiServer.address is set, and other clusters cannot reach the address that pods use; the broker will not check whether this cluster is reachable")
		return nil
	default:
		a.endpointURL, source = host, "the kubeconfig"
	}
	u, err := url.Parse(a.endpointURL)
	if err == nil && u.Port() != "" {
		_, err = strconv.ParseUint(u.Port(), 10, 16)
	}
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// The error omits the address, which may contain credentials.
		return fmt.Errorf("%s is not the https address of an API server: set --endpoint-url to one without user, query and fragment and with a port up to 65535, for example https://rome.example.com:6443", source)
	}
	return nil
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

func (a *agent) resolveMode(installed bool) error {
	switch {
	case (a.peeringMode == peeringBrokered || a.peeringMode == peeringKubeconfig) && !installed:
		return fmt.Errorf("--peering-mode=%s: Liqo is not installed in this cluster (no API %s); install it or use --peering-mode=none", a.peeringMode, installation.API())
	case a.peeringMode == "" && installed:
		a.peeringMode = peeringBrokered
	case a.peeringMode == "":
		a.peeringMode, a.withoutLiqo = peeringNone, true
		a.log.Info("Liqo is not installed: reserving capacity without peering (--peering-mode=none)")
	}
	return nil
}

// readLiqoID reads the cluster ID of the installed Liqo.
func (a *agent) readLiqoID(ctx context.Context, clientset kubernetes.Interface) (string, error) {
	ids, err := clientset.CoreV1().ConfigMaps(a.liqoNamespace).Get(ctx, liqoClusterIDConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("ConfigMap %s/%s with Liqo's cluster ID is missing: is Liqo in another namespace (--liqo-namespace)?", a.liqoNamespace, liqoClusterIDConfigMap)
	}
	if err != nil {
		return "", fmt.Errorf("reading Liqo's cluster ID: %w", err)
	}
	return ids.Data[liqoClusterIDKey], nil
}

// defaultClusterID returns the ID to enrol with if neither the flag nor a certificate names one:
// Liqo's ID, else the UID of the namespace kube-system, which never changes.
func (a *agent) defaultClusterID(ctx context.Context, clientset kubernetes.Interface, liqoID string) (string, error) {
	if a.clusterID != "" || liqoID != "" {
		return liqoID, nil
	}
	system, err := clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("neither --cluster-id nor Liqo gives this cluster's ID, and reading the UID of namespace %s failed: %w", metav1.NamespaceSystem, err)
	}
	a.log.Info("WARNING: neither --cluster-id nor Liqo gives this cluster's ID; without a certificate it enrols with the UID of namespace kube-system", "cluster", system.UID)
	return string(system.UID), nil
}

// resolveID takes the cluster ID from the flag, else from the certificate. It returns an error
// unless flag, certificate and Liqo have the same ID.
func (a *agent) resolveID(liqoID string) error {
	certified, err := a.files.ClusterID()
	if err != nil {
		return fmt.Errorf("--broker-cert-path: %w", err)
	}
	if a.clusterID == "" {
		a.clusterID = certified
	}
	if a.clusterID != certified {
		return fmt.Errorf("--cluster-id is %q but the certificate in --broker-cert-path is for %q: the broker uses the certificate's ID, so set --cluster-id to it; %s", a.clusterID, certified, enrolAgain)
	}
	return checkID(certified, liqoID)
}

// enrolAgain is the remedy for a wrong cluster ID in a certificate that the agent manages itself.
const enrolAgain = "with --identity-secret, delete that Secret to enrol again"

// checkID returns an error for a cluster ID that is invalid or differs from Liqo's. An empty ID
// means that the ID is not known yet, and causes no error.
func checkID(id, liqoID string) error {
	if id == "" {
		return nil
	}
	if !pki.ValidClusterID(id) {
		return fmt.Errorf("cluster ID %q is invalid: use a DNS label of at most %d lower-case characters", id, pki.MaxClusterIDLength)
	}
	if liqoID != "" && liqoID != id {
		return fmt.Errorf("this agent's cluster ID is %q but Liqo's is %q: use Liqo's ID here (%s), or reinstall Liqo with discovery.config.clusterID=%s", id, liqoID, enrolAgain, id)
	}
	return nil
}
