package bounds

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func fromYAML[T any](t *testing.T, text string) T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// others are the other requests of the namespace. The live ones request 6 cores, 12Gi and one
// GPU; the rest are over.
const others = `
items:
- {metadata: {name: a}, spec: {cpu: "4", memory: 8Gi}, status: {phase: Active}}
- {metadata: {name: b}, spec: {cpu: 2000m, memory: 4Gi, resources: {nvidia.com/gpu: "1"}}, status: {phase: Releasing}}
- {metadata: {name: c}, spec: {cpu: "100"}, status: {phase: Failed}}
- {metadata: {name: d}, spec: {cpu: "100"}, status: {phase: Released}}
`

func TestBounds(t *testing.T) {
	cases := map[string]struct {
		limits, hard, spec string
		want               []string
	}{
		"without bounds anything goes": {spec: `{cpu: "100000"}`},
		"bounds of other kinds do not matter": {
			limits: `[{type: Pod, max: {cpu: 1}}]`, hard: `{requests.cpu: 1, pods: 1, count/resourcerequests.liqo.io: 1}`, spec: `{cpu: "8"}`,
		},
		"exactly the most that one may ask for": {
			limits: `[{type: liqo.io/ResourceRequest, max: {cpu: 4, nvidia.com/gpu: 1, liqo.io/priority: 10}, min: {cpu: 4}}]`,
			spec:   `{cpu: 4000m, resources: {nvidia.com/gpu: 1}, priority: 10}`,
		},
		"more in pods than one may ask for": {
			limits: `[{type: liqo.io/ResourceRequest, max: {cpu: 4}}]`,
			spec:   `{memory: 1Gi, podShapes: [{count: 3, resources: {cpu: 1}}, {count: 1, resources: {cpu: 1001m}}]}`,
			want:   []string{`spec.cpu: Invalid value: "4001m" … LimitRange "limits" allows at most 4; ask for less`},
		},
		"more than one may ask for": {
			limits: `[{type: liqo.io/ResourceRequest, max: {cpu: 4, memory: 1Gi, nvidia.com/gpu: 0, liqo.io/priority: 10}}]`,
			spec:   `{cpu: 4001m, memory: 2Gi, resources: {nvidia.com/gpu: 1}, priority: 11}`,
			want: []string{
				`spec.cpu: Invalid value: "4001m" … LimitRange "limits" allows at most 4; ask for less`,
				`spec.priority: Invalid value: "11" … at most 10`,
				`spec.memory: Invalid value: "2Gi" … at most 1Gi`,
				`spec.resources[nvidia.com/gpu]: Invalid value: "1" … at most 0`,
			},
		},
		"less than one must ask for, of one resource not at all": {
			limits: `[{type: liqo.io/ResourceRequest, min: {cpu: 1, memory: 1Gi}}]`,
			spec:   `{cpu: 500m}`,
			want: []string{
				`spec.cpu: Invalid value: "500m" … LimitRange "limits" wants at least 1; ask for more`,
				`spec.memory: Invalid value: "0" … at least 1Gi`,
			},
		},
		"exactly what is left of the sum": {
			hard: `{resourcerequests.liqo.io/cpu: 8, resourcerequests.liqo.io/nvidia.com.gpu: 2}`,
			spec: `{cpu: "2", resources: {nvidia.com/gpu: 1}}`,
		},
		"more than is left of the sum": {
			hard: `{resourcerequests.liqo.io/cpu: 8, resourcerequests.liqo.io/memory: 16Gi, resourcerequests.liqo.io/nvidia.com.gpu: 1}`,
			spec: `{cpu: 2001m, memory: 4Gi, resources: {nvidia.com/gpu: 1}}`,
			want: []string{
				`spec.cpu: Invalid value: "2001m" … ResourceQuota "quota" allows resourcerequests.liqo.io/cpu=8 to the requests of this namespace together, of which 6 is asked for already; ask for less, delete a request`,
				`spec.resources[nvidia.com/gpu]: Invalid value: "1" … resourcerequests.liqo.io/nvidia.com.gpu=1`,
			},
		},
		"a sum that is exceeded already does not matter to who asks for none": {
			hard: `{resourcerequests.liqo.io/cpu: 1}`, spec: `{memory: 1Gi, cpu: "0", resources: {nvidia.com/gpu: 1}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := Bounds{
				Limits: []corev1.LimitRange{fromYAML[corev1.LimitRange](t, "metadata: {name: limits}\nspec: {limits: "+tc.limits+"}")},
				Quotas: []corev1.ResourceQuota{fromYAML[corev1.ResourceQuota](t, "metadata: {name: quota}\nspec: {hard: "+tc.hard+"}")},
			}
			rr := fromYAML[agentv1alpha1.ResourceRequest](t, "metadata: {name: new}\nspec: "+tc.spec)
			errs := b.Check(&rr, fromYAML[agentv1alpha1.ResourceRequestList](t, others).Items)
			if len(errs) != len(tc.want) {
				t.Fatalf("%d errors, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, err := range errs {
				field, advice, _ := strings.Cut(tc.want[i], " … ")
				if !strings.HasPrefix(err.Error(), field) || !strings.Contains(err.Error(), advice) {
					t.Errorf("%q, want %q", err, tc.want[i])
				}
			}
		})
	}
}

func TestRequestDoesNotCountAgainstItself(t *testing.T) {
	b := Bounds{Quotas: []corev1.ResourceQuota{fromYAML[corev1.ResourceQuota](t, `{spec: {hard: {resourcerequests.liqo.io/cpu: 6}}}`)}}
	all := fromYAML[agentv1alpha1.ResourceRequestList](t, others).Items
	if errs := b.Check(&all[0], all); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestUsedCountsTheKeysOfTheQuota(t *testing.T) {
	quota := fromYAML[corev1.ResourceQuota](t, `{spec: {hard: {pods: 4, resourcerequests.liqo.io/cpu: 16, resourcerequests.liqo.io/nvidia.com.gpu: 2,
		resourcerequests.liqo.io/ephemeral-storage: 1Gi, resourcerequests.liqo.io/liqo.io.priority: 9}}}`)
	used := Used(&quota, fromYAML[agentv1alpha1.ResourceRequestList](t, others).Items)
	want := fromYAML[corev1.ResourceQuota](t, `{spec: {hard: {resourcerequests.liqo.io/cpu: 6, resourcerequests.liqo.io/nvidia.com.gpu: 1,
		resourcerequests.liqo.io/ephemeral-storage: 0, resourcerequests.liqo.io/liqo.io.priority: 0}}}`).Spec.Hard
	if diff := cmp.Diff(want, used); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}
