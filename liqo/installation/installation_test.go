package installation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

func TestInstallationsAreJudged(t *testing.T) {
	const (
		hard         = "set controllerManager.config.defaultLimitsEnforcement=Hard in Liqo's chart"
		another      = "install Liqo 1.2"
		ifNecessary  = "if something does not work, install Liqo 1.2"
		namespaceIs  = "if Liqo is in another namespace, set liqo.namespace"
		missing      = "Liqo is not installed (no API authentication.liqo.io/v1beta1): no cluster can peer"
		hidden       = "Liqo's version and whether it enforces limits are unknown: "
		orDoNotPeer  = "install Liqo 1.2 and restart the agent, or set peeringMode=none"
		enforceQuota = "set controllerManager.config.enableResourceEnforcement=true in Liqo's chart"
	)
	of := func(version string, limits offloadingv1beta1.LimitsEnforcement) installation.Installation {
		return installation.Installation{Served: true, Version: version, Quota: true, Limits: limits}
	}
	type verdict struct {
		status                  metav1.ConditionStatus
		reason, message, advice string
	}
	for name, tc := range map[string]struct {
		seen installation.Installation
		want verdict
	}{
		"there is none": {
			installation.Installation{},
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLiqoMissing, missing, orDoNotPeer},
		},
		"what cannot be read is no alarm": {
			installation.Installation{Served: true, Hidden: "forbidden"},
			verdict{metav1.ConditionUnknown, agentv1alpha1.ReasonLiqoHidden, hidden + "forbidden", namespaceIs},
		},
		"the version that is tested": {
			of("v1.2.0", "Hard"),
			verdict{metav1.ConditionTrue, agentv1alpha1.ReasonLiqoReady, "Liqo v1.2.0 enforces limits", ""},
		},
		"a later patch of it": {
			of("1.2.17", "Hard"),
			verdict{metav1.ConditionTrue, agentv1alpha1.ReasonLiqoReady, "Liqo 1.2.17 enforces limits", ""},
		},
		"a candidate of it": {
			of("v1.2.1-rc.1", "Hard"),
			verdict{metav1.ConditionTrue, agentv1alpha1.ReasonLiqoReady, "Liqo v1.2.1-rc.1 enforces limits", ""},
		},
		"a later minor version": {
			of("v1.3.0", "Hard"),
			verdict{metav1.ConditionTrue, agentv1alpha1.ReasonLiqoVersionUntested, "Liqo v1.3.0 enforces limits; this agent is tested with Liqo 1.2", ifNecessary},
		},
		"a commit": {
			of("557c199cf", "Hard"),
			verdict{metav1.ConditionTrue, agentv1alpha1.ReasonLiqoVersionUntested, "Liqo 557c199cf enforces limits; this agent is tested with Liqo 1.2", ifNecessary},
		},
		"an earlier minor version": {
			of("v1.1.2", "Hard"),
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLiqoVersionUnsupported, "Liqo v1.1.2 is not supported", another},
		},
		"another major version, whatever it enforces": {
			of("v2.2.0", "None"),
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLiqoVersionUnsupported, "Liqo v2.2.0 is not supported", another},
		},
		"Deployments that are not available": {
			installation.Installation{Served: true, Version: "v1.2.0", Stopped: []string{"liqo-webhook", "liqo-crd-replicator"}},
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLiqoNotRunning,
				"no pod of Liqo's liqo-webhook, liqo-crd-replicator is available: no cluster can peer", "look at its pods and their events"},
		},
		"a controller manager that hangs": {
			installation.Installation{Served: true, Version: "v1.2.0", Neglected: &installation.Neglected{Object: "Tenant ns/t", Since: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}},
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLiqoNotRunning,
				"Liqo's controller manager has not processed Tenant ns/t since 2026-03-01T12:00:00Z: no cluster can peer", "read the log of liqo-controller-manager, and delete its pod if it hangs"},
		},
		"limits that are not enforced": {
			of("v1.2.0", "None"),
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLimitsNotEnforced,
				`Liqo v1.2.0 enforces limits "None": pods of other clusters may use more than they reserved`, hard},
		},
		"requests alone": {
			of("v1.2.0", "Soft"),
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLimitsNotEnforced,
				`Liqo v1.2.0 enforces limits "Soft": pods of other clusters may use more than they reserved`, hard},
		},
		"what is untested and enforces nothing": {
			of("v1.3.0", "None"),
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLimitsNotEnforced,
				`Liqo v1.3.0 enforces limits "None": pods of other clusters may use more than they reserved`, hard},
		},
		"limits of quotas that are not enforced": {
			installation.Installation{Served: true, Version: "v1.2.0", Limits: "Hard"},
			verdict{metav1.ConditionFalse, agentv1alpha1.ReasonLimitsNotEnforced,
				"Liqo v1.2.0 does not enforce its quotas: pods of other clusters may take more than they reserved", enforceQuota},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := metav1.Condition{
				Type: agentv1alpha1.ConditionLiqoReady, Status: tc.want.status, Reason: tc.want.reason,
				Message: strings.TrimSuffix(tc.want.message+"; "+tc.want.advice, "; "),
			}
			if diff := cmp.Diff(want, tc.seen.Judge()); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddressThatLiqoGivesToPeers(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "",
		"--api-server-address-override":  "",
		"--api-server-address-override=": "",
		"--api-server-address-override=rome.example.com:6443":         "https://rome.example.com:6443",
		"--api-server-address-override=https://rome.example.com:6443": "https://rome.example.com:6443",
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-controller-manager"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"--cluster-id=rome", args}}}
		got, err := installation.APIServerAddress(t.Context(), fake.NewClientset(d), "liqo")
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", args, got, err, want)
		}
	}
	if got, err := installation.APIServerAddress(t.Context(), fake.NewClientset(), "liqo"); err != nil || got != "" {
		t.Errorf("without Liqo's Deployment: %q, %v", got, err)
	}
}
