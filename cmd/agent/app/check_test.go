package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

func TestFindingsAboutLiqo(t *testing.T) {
	for name, tc := range map[string]struct {
		seen installation.Installation
		want checkup.Finding
	}{
		"as it should be": {
			installation.Installation{Served: true, Version: "v1.2.0", Quota: true, Limits: "Hard"},
			checkup.Finding{Level: checkup.OK, Message: `cluster ID "rome"; Liqo v1.2.0 enforces limits`},
		},
		"what cannot be read is no fault": {
			installation.Installation{Served: true, Hidden: "forbidden"},
			checkup.Finding{Level: checkup.OK, Message: `cluster ID "rome"; Liqo's version and whether it enforces limits are unknown: forbidden`},
		},
		"without limits": {
			installation.Installation{Served: true, Version: "v1.2.0", Quota: true, Limits: "None"},
			checkup.Finding{
				Level:   checkup.Warning,
				Message: `cluster ID "rome"; Liqo v1.2.0 enforces limits "None": pods of other clusters may use more than they reserved`,
				Advice:  "set controllerManager.config.defaultLimitsEnforcement=Hard in Liqo's chart",
			},
		},
		"an untested version": {
			installation.Installation{Served: true, Version: "v1.3.0", Quota: true, Limits: "Hard"},
			checkup.Finding{
				Level:   checkup.Warning,
				Message: `cluster ID "rome"; Liqo v1.3.0 enforces limits; this agent is tested with Liqo 1.2`,
				Advice:  "if something does not work, install Liqo 1.2",
			},
		},
		"a version that is not supported": {
			installation.Installation{Served: true, Version: "v1.0.1", Quota: true, Limits: "Hard"},
			checkup.Finding{Level: checkup.Failed, Message: `cluster ID "rome"; Liqo v1.0.1 is not supported`, Advice: "install Liqo 1.2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, liqoFinding("rome", tc.seen.Judge())); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindingsAboutTheBrokersVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		pong v1.Pong
		want checkup.Finding
	}{
		"of the agent's version": {
			v1.Pong{Version: "v0.1.0", ApiMinor: v1.Minor},
			checkup.Finding{Level: checkup.OK, Message: "answers with version v0.1.0"},
		},
		"one minor version newer": {
			v1.Pong{Version: "v0.2.0", ApiMinor: v1.Minor + 1},
			checkup.Finding{
				Level: checkup.Warning, Message: "answers with version v0.2.0, this agent has v0.1.0",
				Advice: "upgrade the broker first, then the agents; adjacent versions work together",
			},
		},
		"two minor versions newer": {
			v1.Pong{Version: "v0.3.0", ApiMinor: v1.Minor + 2},
			checkup.Finding{
				Level: checkup.Failed, Message: "answers; the broker speaks v1.3 of the API, this agent v1.1: these versions do not work together",
				Advice: "upgrade this agent, one minor version after the other",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, brokerFinding(&tc.pong, "v0.1.0")); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindingsAboutDaemonSets(t *testing.T) {
	daemonSet := func(namespace, name string, tolerations ...corev1.Toleration) *appsv1.DaemonSet {
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		ds.Spec.Template.Spec.Tolerations = tolerations
		return ds
	}
	every := corev1.Toleration{Operator: corev1.TolerationOpExists}
	offloaded := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"liqo.io/scheduling-enabled": "true"}}}
	none := checkup.Finding{Level: checkup.OK, Message: "none needlessly uses virtual nodes"}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    checkup.Finding
	}{
		"without any":               {nil, none},
		"without a toleration":      {[]client.Object{daemonSet("logs", "fluent")}, none},
		"in an offloaded namespace": {[]client.Object{offloaded, daemonSet("shop", "cache", every)}, none},
		"that tolerate every taint": {
			[]client.Object{offloaded, daemonSet("kube-system", "cni", every), daemonSet("shop", "cache", every), daemonSet("logs", "fluent", every)},
			checkup.Finding{
				Level:   checkup.Warning,
				Message: "pods of kube-system/cni, logs/fluent tolerate every taint and are created on virtual nodes, where they never become ready: that blocks rolling updates",
				Advice:  "give their pods the node affinity liqo.io/type NotIn [virtual-node], or restart them with kubectl rollout restart while the agent's webhook runs, which adds it",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := newScheme()
			runtest.Check(t, err)
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).Build()
			if diff := cmp.Diff(tc.want, checkDaemonSets(t.Context(), c)); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}
