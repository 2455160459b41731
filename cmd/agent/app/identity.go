package app

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Where Liqo keeps its cluster ID.
const (
	liqoClusterIDConfigMap = "liqo-clusterid-configmap"
	liqoClusterIDKey       = "CLUSTER_ID"
	// liqoAPI is served where Liqo is installed.
	liqoAPI = "authentication.liqo.io/v1beta1"
)

// settle finds out what the flags left open, and stops the agent where two sources
// disagree.
func (a *agent) settle(ctx context.Context, config *rest.Config) error {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	installed, err := liqoInstalled(clientset)
	if err != nil {
		return err
	}
	if err := a.settleMode(installed); err != nil {
		return err
	}
	if err := a.settleID(ctx, clientset, installed); err != nil {
		return err
	}
	if a.endpointURL == "" {
		a.endpointURL = config.Host
	}
	if !strings.HasPrefix(a.endpointURL, "https://") {
		return fmt.Errorf("--endpoint-url: %q is no https address: give that of this cluster's API server", a.endpointURL)
	}
	return nil
}

func (a *agent) settleMode(installed bool) error {
	switch {
	case a.peeringMode == peeringBrokered && !installed:
		return fmt.Errorf("--peering-mode=brokered: Liqo is not installed in this cluster (no API %s); install it or use --peering-mode=none", liqoAPI)
	case a.peeringMode == "" && installed:
		a.peeringMode = peeringBrokered
	case a.peeringMode == "":
		a.peeringMode = peeringNone
		a.log.Info("Liqo is not installed: capacity is reserved, nobody peers (--peering-mode=none)")
	}
	if a.kubeconfigsDir != "" {
		a.log.Info("--kubeconfigs-dir is not needed and not read: peering goes through the broker without any kubeconfig", "folder", a.kubeconfigsDir)
	}
	return nil
}

func liqoInstalled(clientset kubernetes.Interface) (bool, error) {
	_, err := clientset.Discovery().ServerResourcesForGroupVersion(liqoAPI)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server for %s: %w", liqoAPI, err)
	}
	return true, nil
}

// settleID takes the flag, the certificate's common name and Liqo's cluster ID, which
// must all say the same.
func (a *agent) settleID(ctx context.Context, clientset kubernetes.Interface, installed bool) error {
	certified, err := a.files.ClusterID()
	if err != nil {
		return fmt.Errorf("--broker-cert-path: %w", err)
	}
	if a.clusterID == "" {
		a.clusterID = certified
	}
	if a.clusterID != certified {
		return fmt.Errorf("--cluster-id is %q but the certificate in --broker-cert-path speaks for %q: the broker believes the certificate, make them agree", a.clusterID, certified)
	}
	if !pki.ValidClusterID(a.clusterID) {
		return fmt.Errorf("cluster ID %q is not usable: a DNS label of at most %d lower-case characters is", a.clusterID, pki.MaxClusterIDLength)
	}
	if !installed {
		return nil
	}
	ids, err := clientset.CoreV1().ConfigMaps(a.liqoNamespace).Get(ctx, liqoClusterIDConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("ConfigMap %s/%s with Liqo's cluster ID is missing: is Liqo in another namespace (--liqo-namespace)?", a.liqoNamespace, liqoClusterIDConfigMap)
	}
	if err != nil {
		return fmt.Errorf("reading Liqo's cluster ID: %w", err)
	}
	if id := ids.Data[liqoClusterIDKey]; id != a.clusterID {
		return fmt.Errorf("this agent's cluster ID is %q but Liqo's is %q: issue a certificate for Liqo's ID, or reinstall Liqo with discovery.config.clusterID=%s", a.clusterID, id, a.clusterID)
	}
	return nil
}
