package agent

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestDaemonSetsOfNodeAgentsStayOffVirtualNodes matches the changed template as the controller of
// DaemonSets does.
func TestDaemonSetsOfNodeAgentsStayOffVirtualNodes(t *testing.T) {
	linux := `{key: kubernetes.io/os, operator: In, values: [linux]}`
	affinity := func(terms string) string {
		return `, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}}`
	}
	for name, tt := range map[string]struct {
		spec                 string
		changed, real, mayBe bool // mayBe: on a virtual node
	}{
		"that tolerate everything":              {spec: `tolerations: [{operator: Exists}]`, changed: true, real: true},
		"that tolerate every NoExecute":         {spec: `tolerations: [{operator: Exists, effect: NoExecute}]`, changed: true, real: true},
		"with affinity":                         {spec: `tolerations: [{operator: Exists}]` + affinity(`{matchExpressions: [`+linux+`]}`), changed: true, real: true},
		"with two terms":                        {spec: `tolerations: [{operator: Exists}]` + affinity(`{matchExpressions: [{key: disk, operator: Exists}]}, {matchExpressions: [`+linux+`]}`), changed: true, real: true},
		"with a node selector":                  {spec: `tolerations: [{operator: Exists}], nodeSelector: {kubernetes.io/os: linux}`, changed: true, real: true},
		"with preferences only":                 {spec: `tolerations: [{operator: Exists}], affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [` + linux + `]}}]}}`, changed: true, real: true},
		"that exclude virtual nodes":            {spec: `tolerations: [{operator: Exists}]` + affinity(`{matchExpressions: [{key: liqo.io/type, operator: NotIn, values: [virtual-node]}]}`), real: true},
		"that exclude them by the label's name": {spec: `tolerations: [{operator: Exists}]` + affinity(`{matchExpressions: [{key: liqo.io/type, operator: DoesNotExist}]}`), real: true},
		"whose affinity matches no node":        {spec: `tolerations: [{operator: Exists}]` + affinity(`{}`)},
		"that tolerate every NoSchedule":        {spec: `tolerations: [{operator: Exists, effect: NoSchedule}]`, real: true, mayBe: true},
		"that tolerate the taint by its name":   {spec: `tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists}]`, real: true, mayBe: true},
		"that select virtual nodes":             {spec: `tolerations: [{operator: Exists}], nodeSelector: {liqo.io/type: virtual-node}`, mayBe: true},
		"that select virtual nodes by affinity": {spec: `tolerations: [{operator: Exists}]` + affinity(`{matchExpressions: [{key: liqo.io/type, operator: In, values: [virtual-node]}]}`), mayBe: true},
		"that select a request":                 {spec: `tolerations: [{operator: Exists}], nodeSelector: {broker.fluidos.eu/request: r}`, mayBe: true},
		"without a toleration of the taint":     {spec: `tolerations: [{key: gpu, operator: Exists}]`, real: true, mayBe: true},
		"without tolerations":                   {spec: `containers: [{name: a}]`, real: true, mayBe: true},
	} {
		t.Run(name, func(t *testing.T) {
			ds := &appsv1.DaemonSet{}
			runtest.Check(t, yaml.UnmarshalStrict([]byte(`{spec: {template: {spec: {`+tt.spec+`}}}}`), ds))
			if may := MayUseVirtualNodes(ds); may != tt.changed {
				t.Errorf("may use virtual nodes: %t", may)
			}
			pod := &corev1.Pod{Spec: ds.Spec.Template.Spec}
			if changed := avoidVirtualNodes(&pod.Spec); changed != tt.changed {
				t.Errorf("changed: %t", changed)
			}
			if avoidVirtualNodes(&pod.Spec) {
				t.Error("changed again")
			}
			for node, want := range map[*corev1.Node]bool{
				nodeWith("worker", "kubernetes.io/os=linux"): tt.real,
				nodeWith("res-aaaaaaaaaa-1", "kubernetes.io/os=linux", "liqo.io/type=virtual-node", "broker.fluidos.eu/request=r"): tt.mayBe,
			} {
				if got, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || got != want {
					t.Errorf("on node %s: %t, %v", node.Name, got, err)
				}
			}
		})
	}
}
