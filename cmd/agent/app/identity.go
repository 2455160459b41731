package app

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
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
		if liqoID, err = installation.ClusterID(ctx, clientset, a.liqoNamespace); err != nil {
			return err
		}
	}
	if err := identity.CheckClusterID(a.clusterID, liqoID); err != nil {
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
	var warning string
	a.endpointURL, warning, err = reach.ChooseEndpoint(a.endpointURL, liqoAddress, config.Host)
	if warning != "" {
		a.log.Info(warning, "endpoint", a.endpointURL, "liqo", liqoAddress)
	}
	return err
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
		return fmt.Errorf("--cluster-id is %q but the certificate in --broker-cert-path is for %q: the broker uses the certificate's ID, so set --cluster-id to it; %s", a.clusterID, certified, identity.EnrolAgain)
	}
	return identity.CheckClusterID(certified, liqoID)
}
