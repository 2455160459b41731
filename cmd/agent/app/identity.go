package app

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

// Where Liqo keeps its cluster ID.
const (
	liqoClusterIDConfigMap = "liqo-clusterid-configmap"
	liqoClusterIDKey       = "CLUSTER_ID"
)

// settle finds out what the flags left open, and stops the agent where two sources
// disagree.
func (a *agent) settle(ctx context.Context, config *rest.Config) error {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	installed, err := installation.Served(ctx, clientset.Discovery().RESTClient())
	if err != nil {
		return err
	}
	if err := a.settleMode(installed); err != nil {
		return err
	}
	liqoID := ""
	if installed {
		if liqoID, err = a.liqoID(ctx, clientset); err != nil {
			return err
		}
	}
	if err := checkID(a.clusterID, liqoID); err != nil {
		return err
	}
	if err := a.acquire(ctx, clientset, liqoID); err != nil {
		return err
	}
	if err := a.settleID(liqoID); err != nil {
		return err
	}
	liqos := ""
	if installed {
		if liqos, err = installation.APIServerAddress(ctx, clientset, a.liqoNamespace); err != nil {
			return err
		}
	}
	return a.settleEndpoint(liqos, config.Host)
}

// settleEndpoint takes the flag, else what Liqo tells those who peer, else the address at
// which the agent itself finds the API server, unless only pods do.
func (a *agent) settleEndpoint(liqos, host string) error {
	source := "--endpoint-url"
	switch {
	case a.endpointURL != "":
		if liqos != "" && strings.TrimSuffix(liqos, "/") != strings.TrimSuffix(a.endpointURL, "/") {
			a.log.Info("WARNING: --endpoint-url is advertised and looked at, but whoever peers is sent to Liqo's apiServer.address: make them agree",
				"endpoint", a.endpointURL, "liqo", liqos)
		}
	case liqos != "":
		a.endpointURL, source = liqos, "apiServer.address of Liqo's chart"
	case host == podsOnly():
		a.log.Info("neither --endpoint-url nor Liqo's apiServer.address is given, and other clusters do not reach the address that pods use: none is advertised, and nobody looks whether this cluster can be reached")
		return nil
	default:
		a.endpointURL, source = host, "the kubeconfig"
	}
	u, err := url.Parse(a.endpointURL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		// What stands where a credential may be is not repeated.
		return fmt.Errorf("%s: no https address of an API server: give one without user, query and fragment with --endpoint-url, for example https://rome.example.com:6443", source)
	}
	return nil
}

// podsOnly is the address at which pods find the API server of the cluster that this runs
// in, "" outside a pod.
func podsOnly() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

func (a *agent) settleMode(installed bool) error {
	switch {
	case (a.peeringMode == peeringBrokered || a.peeringMode == peeringKubeconfig) && !installed:
		return fmt.Errorf("--peering-mode=%s: Liqo is not installed in this cluster (no API %s); install it or use --peering-mode=none", a.peeringMode, installation.API())
	case a.peeringMode == "" && installed:
		a.peeringMode = peeringBrokered
	case a.peeringMode == "":
		a.peeringMode, a.withoutLiqo = peeringNone, true
		a.log.Info("Liqo is not installed: capacity is reserved, nobody peers (--peering-mode=none)")
	}
	return nil
}

// liqoID is the cluster ID that Liqo was installed with.
func (a *agent) liqoID(ctx context.Context, clientset kubernetes.Interface) (string, error) {
	ids, err := clientset.CoreV1().ConfigMaps(a.liqoNamespace).Get(ctx, liqoClusterIDConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("ConfigMap %s/%s with Liqo's cluster ID is missing: is Liqo in another namespace (--liqo-namespace)?", a.liqoNamespace, liqoClusterIDConfigMap)
	}
	if err != nil {
		return "", fmt.Errorf("reading Liqo's cluster ID: %w", err)
	}
	return ids.Data[liqoClusterIDKey], nil
}

// defaultClusterID is what the cluster enrols as where neither flag nor certificate
// says it: Liqo's ID, else the UID of kube-system, which is as old as the cluster.
func (a *agent) defaultClusterID(ctx context.Context, clientset kubernetes.Interface, liqoID string) (string, error) {
	if a.clusterID != "" || liqoID != "" {
		return liqoID, nil
	}
	system, err := clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("neither --cluster-id nor Liqo says what this cluster's ID is, and the UID of namespace %s cannot be read: %w", metav1.NamespaceSystem, err)
	}
	a.log.Info("WARNING: neither --cluster-id nor Liqo says what this cluster's ID is: unless a certificate does, it enrols with the UID of namespace kube-system", "cluster", system.UID)
	return string(system.UID), nil
}

// settleID takes the flag, the certificate's common name and Liqo's cluster ID, which
// must all say the same.
func (a *agent) settleID(liqoID string) error {
	certified, err := a.files.ClusterID()
	if err != nil {
		return fmt.Errorf("--broker-cert-path: %w", err)
	}
	if a.clusterID == "" {
		a.clusterID = certified
	}
	if a.clusterID != certified {
		return fmt.Errorf("--cluster-id is %q but the certificate in --broker-cert-path speaks for %q: the broker believes the certificate, make them agree; %s", a.clusterID, certified, enrolAgain)
	}
	return checkID(certified, liqoID)
}

// enrolAgain is the remedy of an agent that keeps its certificate itself.
const enrolAgain = "with --identity-secret, delete that Secret to enrol again"

// checkID says whether an ID can be used, beside that of Liqo; either may be empty
// for not being known.
func checkID(id, liqoID string) error {
	if id == "" {
		return nil
	}
	if !pki.ValidClusterID(id) {
		return fmt.Errorf("cluster ID %q is not usable: a DNS label of at most %d lower-case characters is", id, pki.MaxClusterIDLength)
	}
	if liqoID != "" && liqoID != id {
		return fmt.Errorf("this agent's cluster ID is %q but Liqo's is %q: use Liqo's ID here (%s), or reinstall Liqo with discovery.config.clusterID=%s", id, liqoID, enrolAgain, id)
	}
	return nil
}
