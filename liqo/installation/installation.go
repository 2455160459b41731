// Package installation checks whether the agent can use the Liqo that is installed in this
// cluster.
package installation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// Names that Liqo's chart gives to its Deployments, to the label with its version, and to flags of its
// programs.
const (
	managerDeployment = "liqo-controller-manager"
	// replicatorDeployment is the program that replicates ResourceSlices to other clusters.
	replicatorDeployment = "liqo-crd-replicator"
	webhookDeployment    = "liqo-webhook"
	versionLabel         = "app.kubernetes.io/version"
	limitsFlag           = "default-limits-enforcement"
	quotaFlag            = "enable-resource-enforcement"
	addressFlag          = "api-server-address-override"
	networkingFlag       = "networking-enabled"
)

// testedVersion is the minor version of Liqo that the agent is tested with. Older versions lack CRDs that the
// agent watches. Newer minor versions have a compatible API, but other major versions may not.
var testedVersion = version.MustParseGeneric("1.2")

// API returns the API group and version by which the agent recognizes that Liqo is installed.
func API() string { return authv1beta1.GroupVersion.String() }

// Served reports whether the API server serves Liqo's CRDs.
func Served(ctx context.Context, server rest.Interface) (bool, error) {
	err := server.Get().AbsPath("/apis", API()).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server for %s: %w", API(), err)
	}
	return true, nil
}

// Installation describes Liqo in this cluster. The zero value means that Liqo is missing.
type Installation struct {
	// Served is true when the API server serves Liqo's CRDs.
	Served bool
	// Hidden says why the Deployments of Liqo's chart cannot be read; empty if they can. If it is not empty,
	// the following fields are not filled.
	Hidden string
	// Version is the version in the labels of Liqo's chart, for example v1.2.0. It may also be a commit.
	Version string
	// Quota is true when Liqo refuses a pod of another cluster if the pod requests more than its slice has
	// left.
	Quota bool
	// Networking is true when Liqo's networking module is enabled, which connects the networks of clusters.
	Networking bool
	// Stopped are the names of Liqo's Deployments that have no available pod.
	Stopped []string
	// Neglected is an object that Liqo's controller manager has not processed; nil for none.
	Neglected *Neglected
	// Limits is Liqo's rule for the limits of other clusters' pods: Hard (they must equal the requests), Soft
	// (they must not be below the requests) or None.
	Limits offloadingv1beta1.LimitsEnforcement
}

// ObserveInstallation reads whether Liqo's CRDs are served, and the Deployments of Liqo's chart in the given
// namespace. Deployments that are missing or must not be read are not an error; see Installation.Hidden.
func ObserveInstallation(ctx context.Context, server rest.Interface, reader client.Reader, namespace string) (Installation, error) {
	var seen Installation
	var err error
	if seen.Served, err = Served(ctx, server); !seen.Served || err != nil {
		return seen, err
	}
	var manager, webhook, replicator appsv1.Deployment
	for _, d := range []struct {
		name string
		into *appsv1.Deployment
	}{{managerDeployment, &manager}, {webhookDeployment, &webhook}, {replicatorDeployment, &replicator}} {
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: d.name}, d.into)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			seen.Hidden = err.Error()
			return seen, nil
		}
		if err != nil {
			return seen, fmt.Errorf("reading Deployment %q of Liqo: %w", d.name, err)
		}
	}
	seen.readDeployments(&manager, &webhook)
	for _, d := range []*appsv1.Deployment{&manager, &webhook, &replicator} {
		if isStopped(d) {
			seen.Stopped = append(seen.Stopped, d.Name)
		}
	}
	return seen, nil
}

// isStopped counts a Deployment without the condition Available as available.
func isStopped(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionFalse
	})
}

func (i *Installation) readDeployments(manager, webhook *appsv1.Deployment) {
	i.Version = manager.Labels[versionLabel]
	i.Limits = offloadingv1beta1.NoLimitsEnforcement
	if limits, given := flagValue(manager, limitsFlag); given {
		i.Limits = offloadingv1beta1.LimitsEnforcement(limits)
	}
	i.Quota, i.Networking = isFlagTrue(webhook, quotaFlag), isFlagTrue(manager, networkingFlag)
}

func isFlagTrue(d *appsv1.Deployment, flag string) bool {
	value, given := flagValue(d, flag)
	on, err := strconv.ParseBool(value)
	return given && (value == "" || err == nil && on)
}

// APIServerAddress returns the https address of this cluster's API server that Liqo sends to peers, if it was
// set when Liqo was installed (apiServer.address in its chart). It returns "" if it was not set or must not be
// read. Without this setting, Liqo uses the address of a control-plane node.
func APIServerAddress(ctx context.Context, c kubernetes.Interface, namespace string) (string, error) {
	manager, err := c.AppsV1().Deployments(namespace).Get(ctx, managerDeployment, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Deployment %q of Liqo: %w", managerDeployment, err)
	}
	address, _ := flagValue(manager, addressFlag)
	if address != "" && !strings.HasPrefix(address, "https://") {
		address = "https://" + address
	}
	return address, nil
}

// ClusterID reads the cluster ID of the installed Liqo from the ConfigMap in which Liqo stores it.
func ClusterID(ctx context.Context, c kubernetes.Interface, namespace string) (string, error) {
	const name, key = "liqo-clusterid-configmap", "CLUSTER_ID"
	ids, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("ConfigMap %s/%s with Liqo's cluster ID is missing: is Liqo in another namespace (--liqo-namespace)?", namespace, name)
	}
	if err != nil {
		return "", fmt.Errorf("reading Liqo's cluster ID: %w", err)
	}
	return ids.Data[key], nil
}

// flagValue returns the value of a flag in the arguments of a Deployment's containers. It does not find a
// value that follows the flag in a separate argument, a form that Liqo's chart does not use. If a flag is
// repeated, the last value counts, as in Liqo.
func flagValue(d *appsv1.Deployment, flag string) (value string, given bool) {
	for _, container := range d.Spec.Template.Spec.Containers {
		for _, arg := range slices.Backward(container.Args) {
			name, value, _ := strings.Cut(arg, "=")
			if name == "--"+flag {
				return value, true
			}
		}
	}
	return "", false
}

// WhyUnready returns the reason of the condition LiqoReady if the condition says that no cluster can peer
// with this one, and "" otherwise. It returns "" if Liqo only fails to enforce limits, because peering still
// works then.
func WhyUnready(c *metav1.Condition) string {
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == agentv1alpha1.ReasonLimitsNotEnforced {
		return ""
	}
	return c.Reason
}

// Judge returns the condition LiqoReady of the Advertisement. It is True if peers get from Liqo what they
// reserved and no more, False if not, and Unknown if that cannot be determined. If there are several problems, it
// is about the most serious one.
func (i Installation) Judge() metav1.Condition {
	found, unread := version.ParseGeneric(i.Version)
	is := func(status metav1.ConditionStatus, reason, advice, format string, args ...any) metav1.Condition {
		message := fmt.Sprintf(format, args...)
		if advice != "" {
			message += "; " + advice
		}
		return metav1.Condition{Type: agentv1alpha1.ConditionLiqoReady, Status: status, Reason: reason, Message: message}
	}
	another := fmt.Sprintf("install Liqo %s", testedVersion)
	switch {
	case !i.Served:
		return is(metav1.ConditionFalse, agentv1alpha1.ReasonLiqoMissing, another+" and restart the agent, or set peeringMode=none",
			"Liqo is not installed (no API %s): no cluster can peer", API())
	case i.Hidden != "":
		return is(metav1.ConditionUnknown, agentv1alpha1.ReasonLiqoHidden, "if Liqo is in another namespace, set liqo.namespace",
			"Liqo's version and whether it enforces limits are unknown: %s", i.Hidden)
	case unread == nil && (found.Major() != testedVersion.Major() || found.Minor() < testedVersion.Minor()):
		return is(metav1.ConditionFalse, agentv1alpha1.ReasonLiqoVersionUnsupported, another,
			"Liqo %s is not supported", i.Version)
	case len(i.Stopped) > 0:
		return is(metav1.ConditionFalse, agentv1alpha1.ReasonLiqoNotRunning, "look at its pods and their events",
			"no pod of Liqo's %s is available: no cluster can peer", strings.Join(i.Stopped, ", "))
	case i.Neglected != nil:
		return is(metav1.ConditionFalse, agentv1alpha1.ReasonLiqoNotRunning, "read the log of liqo-controller-manager, and delete its pod if it hangs",
			"Liqo's controller manager has not processed %s since %s: no cluster can peer", i.Neglected.Object, i.Neglected.Since.UTC().Format(time.RFC3339))
	case !i.Quota:
		return is(metav1.ConditionFalse, agentv1alpha1.ReasonLimitsNotEnforced, "set controllerManager.config.enableResourceEnforcement=true in Liqo's chart",
			"Liqo %s does not enforce its quotas: pods of other clusters may take more than they reserved", i.Version)
	case i.Limits != offloadingv1beta1.HardLimitsEnforcement:
		return is(metav1.ConditionFalse, agentv1alpha1.ReasonLimitsNotEnforced, "set controllerManager.config.defaultLimitsEnforcement=Hard in Liqo's chart",
			"Liqo %s enforces limits %q: pods of other clusters may use more than they reserved", i.Version, i.Limits)
	case unread != nil || found.Minor() != testedVersion.Minor():
		return is(metav1.ConditionTrue, agentv1alpha1.ReasonLiqoVersionUntested, fmt.Sprintf("if something does not work, %s", another),
			"Liqo %s enforces limits; this agent is tested with Liqo %s", i.Version, testedVersion)
	}
	return is(metav1.ConditionTrue, agentv1alpha1.ReasonLiqoReady, "", "Liqo %s enforces limits", i.Version)
}
