package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

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
		"without any":          {nil, none},
		"without a toleration": {[]client.Object{daemonSet("logs", "fluent")}, none},
		"that tolerate every taint": {
			[]client.Object{offloaded, daemonSet("kube-system", "cni", every), daemonSet("shop", "cache", every)},
			checkup.Finding{
				Level:   checkup.Warning,
				Message: "pods of kube-system/cni, shop/cache tolerate every taint and are created on virtual nodes, where they never become ready: that blocks rolling updates",
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
