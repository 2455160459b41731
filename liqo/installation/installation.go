package installation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
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

// What Liqo's chart makes, and what of it says how Liqo works.
const (
	managerDeployment = "liqo-controller-manager"
	webhookDeployment = "liqo-webhook"
	versionLabel      = "app.kubernetes.io/version"
	limitsFlag        = "default-limits-enforcement"
	quotaFlag         = "enable-resource-enforcement"
	addressFlag       = "api-server-address-override"
	networkingFlag    = "networking-enabled"
)

// testedVersion of Liqo is what the agent is tested with. An older one lacks kinds that
// it watches, another major version may have others, and a newer minor one keeps its API.
var testedVersion = version.MustParseGeneric("1.2")

// API is what the API server serves where Liqo is installed.
func API() string { return authv1beta1.GroupVersion.String() }

// Served asks the API server whether it knows Liqo's kinds.
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

// Installation is what can be seen of Liqo in this cluster. The zero value is none.
type Installation struct {
	// Served reports whether the API server knows Liqo's kinds.
	Served bool
	// Hidden is why the Deployments of Liqo's chart cannot be read, "" if they can. If they
	// cannot, nothing of what follows is known.
	Hidden string
	// Version is what the chart says of itself, v1.2.0 for example, or a commit.
	Version string
	// Quota reports whether Liqo refuses pods of others beyond what their slice was granted.
	Quota bool
	// Networking reports whether its networking module runs, which connects clusters.
	Networking bool
	// Limits is what pods of others must say of themselves to be admitted.
	Limits offloadingv1beta1.LimitsEnforcement
}

// ObserveInstallation reads what Liqo's chart has made in its namespace. That it may not
// be read, or that Liqo runs without it, is no error.
func ObserveInstallation(ctx context.Context, server rest.Interface, reader client.Reader, namespace string) (Installation, error) {
	var seen Installation
	var err error
	if seen.Served, err = Served(ctx, server); !seen.Served || err != nil {
		return seen, err
	}
	var manager, webhook appsv1.Deployment
	for _, d := range []struct {
		name string
		into *appsv1.Deployment
	}{{managerDeployment, &manager}, {webhookDeployment, &webhook}} {
		err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: d.name}, d.into)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			seen.Hidden = err.Error()
			return seen, nil
		}
		if err != nil {
			return seen, fmt.Errorf("reading Deployment %q of Liqo: %w", d.name, err)
		}
	}
	seen.read(&manager, &webhook)
	return seen, nil
}

func (i *Installation) read(manager, webhook *appsv1.Deployment) {
	i.Version = manager.Labels[versionLabel]
	i.Limits = offloadingv1beta1.NoLimitsEnforcement
	if limits, given := argument(manager, limitsFlag); given {
		i.Limits = offloadingv1beta1.LimitsEnforcement(limits)
	}
	i.Quota, i.Networking = switched(webhook, quotaFlag), switched(manager, networkingFlag)
}

// switched reports whether a flag that is true or false is given and true.
func switched(d *appsv1.Deployment, flag string) bool {
	value, given := argument(d, flag)
	on, err := strconv.ParseBool(value)
	return given && (value == "" || err == nil && on)
}

// APIServerAddress is the https address that Liqo gives to those who peer with this
// cluster, if it was set where Liqo was installed (apiServer.address); "" if it was not,
// or cannot be read. Liqo then takes that of a control-plane node.
func APIServerAddress(ctx context.Context, c kubernetes.Interface, namespace string) (string, error) {
	manager, err := c.AppsV1().Deployments(namespace).Get(ctx, managerDeployment, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Deployment %q of Liqo: %w", managerDeployment, err)
	}
	address, _ := argument(manager, addressFlag)
	if address != "" && !strings.HasPrefix(address, "https://") {
		address = "https://" + address
	}
	return address, nil
}

// argument is the value of a flag in a Deployment's Pods, written as Liqo's chart does.
// Their process takes the last of several.
func argument(d *appsv1.Deployment, flag string) (value string, given bool) {
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

// Verdict is what an installation of Liqo is good for.
type Verdict struct {
	// Status is True where peers get what they reserved and no more, as far as Liqo is
	// concerned, and Unknown where that cannot be seen.
	Status metav1.ConditionStatus
	Reason string
	// Message says what was found, Advice what to do about it.
	Message, Advice string
}

// Condition of the Advertisement that says it.
func (v Verdict) Condition() metav1.Condition {
	c := metav1.Condition{Type: agentv1alpha1.ConditionLiqoReady, Status: v.Status, Reason: v.Reason, Message: v.Message}
	if v.Advice != "" {
		c.Message += "; " + v.Advice
	}
	return c
}

// Judge says the worst that is to be said of an installation.
func (i Installation) Judge() Verdict {
	found, unread := version.ParseGeneric(i.Version)
	is := func(status metav1.ConditionStatus, reason, advice, format string, args ...any) Verdict {
		return Verdict{Status: status, Reason: reason, Message: fmt.Sprintf(format, args...), Advice: advice}
	}
	another := fmt.Sprintf("install Liqo %s", testedVersion)
	switch {
	case !i.Served:
		return is(metav1.ConditionFalse, agentv1alpha1.ReasonLiqoMissing, another+" and restart the agent, or set peeringMode=none",
			"Liqo is not installed (no API %s): nobody can peer", API())
	case i.Hidden != "":
		return is(metav1.ConditionUnknown, agentv1alpha1.ReasonLiqoHidden, "if Liqo is in another namespace, set liqo.namespace",
			"which version Liqo is and whether it enforces limits cannot be read: %s", i.Hidden)
	case unread == nil && (found.Major() != testedVersion.Major() || found.Minor() < testedVersion.Minor()):
		return is(metav1.ConditionFalse, agentv1alpha1.ReasonLiqoVersionUnsupported, another,
			"Liqo %s is not supported", i.Version)
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
