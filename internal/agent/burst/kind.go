package burst

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Labels and the taint of Liqo's virtual nodes. They are repeated here because only the packages
// under liqo may import Liqo.
const (
	liqoTypeLabel    = "liqo.io/type"
	liqoVirtualNode  = "virtual-node"
	liqoClusterLabel = "liqo.io/remote-cluster-id"
	VirtualNodeTaint = "virtual-node.liqo.io/not-allowed"
)

// Selection is the part of a BurstPolicy that decides which pods the policy selects.
type Selection struct {
	Namespace, Name string
	Selector        *agentv1alpha1.PodSelector
}

// Selects reports whether the policy selects a pod of its namespace with these labels.
func (s *Selection) Selects(labels map[string]string) bool {
	return requirements.Selects((*brokerv1alpha1.ClusterSelector)(s.Selector), labels)
}

// Kind holds everything about an unschedulable pod that decides whether and where it could run on a virtual node, apart
// from its size. The agent counts the pods of each kind instead of remembering every pod.
type Kind struct {
	// Namespace and Policy name the BurstPolicy.
	Namespace, Policy string
	// Skip is why the pod could not run on a virtual node; empty if it could.
	Skip Skip
	// Places are where the pod may run.
	Places Places
}

// Key returns a text that identifies the kind: it is the same for equal kinds, and different for all others.
func (k *Kind) Key() string {
	return k.Namespace + "/" + k.Policy + "/" + string(k.Skip) + "/" + k.Places.Key()
}

// KindOf returns the kind of an unschedulable pod; nil if no policy selects it. If several policies
// select it, it belongs to the first one on whose nodes it could run.
func KindOf(pod *corev1.Pod, policies []Selection) *Kind {
	var skipped *Kind
	for i := range policies {
		p := &policies[i]
		if p.Namespace != pod.Namespace || !p.Selects(pod.Labels) {
			continue
		}
		k := Kind{Namespace: p.Namespace, Policy: p.Name}
		if k.Skip = whySkip(&pod.ObjectMeta, &pod.Spec); k.Skip == "" {
			k.Places, k.Skip = placesOf(&pod.Spec, virtualNodeOf(p))
		}
		if k.Skip == "" {
			k.Skip = whyUnprepared(&pod.Spec)
		}
		if k.Skip == "" {
			return &k
		}
		if skipped == nil {
			skipped = &k
		}
	}
	return skipped
}

// whyUnprepared returns why a pod cannot run on virtual nodes although whySkip and placesOf find no obstacle: it was
// created without the toleration or the limits that such pods need. The agent's webhook sets both when a pod is
// created.
func whyUnprepared(spec *corev1.PodSpec) Skip {
	switch {
	case !ToleratesVirtualNodes(spec.Tolerations):
		return SkipNotPrepared
	case !limitsEqualRequests(spec):
		return SkipLimits
	}
	return ""
}

// whySkip returns why a pod could not run on any virtual node, whatever it selects.
func whySkip(meta *metav1.ObjectMeta, spec *corev1.PodSpec) Skip {
	owner := metav1.GetControllerOfNoCopy(meta)
	switch {
	case owner != nil && owner.Kind == "DaemonSet":
		return SkipDaemonSet
	case !meetsBaseline(meta, spec):
		return SkipHostAccess
	case isRefused(spec):
		return SkipRefused
	case needsOtherPods(spec):
		return SkipPodAffinity
	case slices.ContainsFunc(spec.Volumes, IsLocalVolume):
		return SkipVolume
	case spec.RuntimeClassName != nil && *spec.RuntimeClassName != "" && *spec.RuntimeClassName != "liqo":
		return SkipRuntimeClass
	case len(spec.ResourceClaims) > 0:
		return SkipResourceClaim
	case !hasRequests(spec):
		return SkipNoRequests
	case countResources(spec) > maxResources:
		return SkipResources
	}
	return ""
}

// baseline decides by the Pod Security Standard "baseline", which providers enforce by default.
var baseline = func() policy.Evaluator {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(err) // the checks of the library contradict each other
	}
	return evaluator
}()

func meetsBaseline(meta *metav1.ObjectMeta, spec *corev1.PodSpec) bool {
	results := baseline.EvaluatePod(podsecurity.LevelVersion{Level: podsecurity.LevelBaseline, Version: podsecurity.LatestVersion()}, meta, spec)
	return !slices.ContainsFunc(results, func(r policy.CheckResult) bool { return !r.Allowed })
}

// maxGrace is the longest termination grace period that providers accept by default.
const maxGrace = 600

// isRefused reports whether providers refuse the pod by default, for a reason other than the Pod Security Standard.
func isRefused(spec *corev1.PodSpec) bool {
	return spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds > maxGrace ||
		slices.ContainsFunc(spec.Tolerations, isRefusedToleration)
}

// systemKeys matches keys of taints by which Kubernetes, Liqo and autoscalers keep pods off nodes.
var systemKeys = regexp.MustCompile(`^([^/]*[.])?(kubernetes[.]io|k8s[.]io|liqo[.]io|fluidos[.]eu|karpenter[.]sh)/`)

// isRefusedToleration reports whether the toleration could let a pod run on nodes that a provider keeps for others.
// Providers accept the tolerations that Kubernetes adds to every pod, and any toleration of other taints.
func isRefusedToleration(t corev1.Toleration) bool {
	switch {
	case t.Key == VirtualNodeTaint:
		return false
	case t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable:
		return t.Effect != corev1.TaintEffectNoExecute || t.TolerationSeconds == nil
	case t.Key == corev1.TaintNodeMemoryPressure:
		return t.Effect != corev1.TaintEffectNoSchedule
	}
	return t.Key == "" || systemKeys.MatchString(t.Key) ||
		slices.Contains([]string{"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "CriticalAddonsOnly"}, t.Key)
}

// needsOtherPods reports whether a pod can only be scheduled with regard to other pods. One more node may not help it,
// and while it waited, the node would be paid for.
func needsOtherPods(spec *corev1.PodSpec) bool {
	if a := spec.Affinity; a != nil {
		if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == corev1.DoNotSchedule
	})
}

// IsLocalVolume reports whether providers refuse pods with such a volume by default. A PersistentVolumeClaim belongs to
// this cluster even if it is not bound, and providers accept no claims unless their operator names a storage class for
// them.
func IsLocalVolume(v corev1.Volume) bool {
	s := &v.VolumeSource
	return s.ConfigMap == nil && s.DownwardAPI == nil && s.EmptyDir == nil && s.Image == nil && s.Projected == nil && s.Secret == nil
}

func containersOf(spec *corev1.PodSpec) []corev1.Container {
	return slices.Concat(spec.InitContainers, spec.Containers)
}

// required are the resources that every container must request, because providers admit no other
// pods.
var required = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func hasRequests(spec *corev1.PodSpec) bool {
	return !slices.ContainsFunc(containersOf(spec), func(c corev1.Container) bool {
		return slices.ContainsFunc(required, func(name corev1.ResourceName) bool {
			q, found := c.Resources.Requests[name]
			return !found || q.IsZero()
		})
	})
}

// limitsEqualRequests reports whether each container has limits for the required resources that equal its requests.
// Liqo demands this of pods at a provider if it enforces Hard limits.
func limitsEqualRequests(spec *corev1.PodSpec) bool {
	return !slices.ContainsFunc(containersOf(spec), func(c corev1.Container) bool {
		return slices.ContainsFunc(required, func(name corev1.ResourceName) bool {
			limit, found := c.Resources.Limits[name]
			return !found || limit.Cmp(c.Resources.Requests[name]) != 0
		})
	})
}

// maxResources is how many resources a ResourceRequest can name besides cpu, memory and pods.
const maxResources = 7

func countResources(spec *corev1.PodSpec) int {
	names := map[corev1.ResourceName]bool{}
	for _, c := range containersOf(spec) {
		for name := range c.Resources.Requests {
			names[name] = true
		}
	}
	for name := range spec.Overhead {
		names[name] = true
	}
	delete(names, corev1.ResourceCPU)
	delete(names, corev1.ResourceMemory)
	return len(names)
}

// ToleratesVirtualNodes reports whether a pod may stay on Liqo's virtual nodes. The agent's webhook
// gives pods this toleration when they are created.
func ToleratesVirtualNodes(tolerations []corev1.Toleration) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		key := t.Key == VirtualNodeTaint || t.Key == "" && t.Operator == corev1.TolerationOpExists
		value := t.Operator == corev1.TolerationOpExists || t.Value == "true"
		return key && value && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute) && t.TolerationSeconds == nil
	})
}

// Places are the regions, zones and clusters to which a pod's node selector and affinity restrict
// it. An empty list restricts nothing. The lists are sorted.
type Places struct {
	Regions, Zones, Clusters []string
	// Excluded are clusters where the pod must not run.
	Excluded []string
}

// Key returns a text that identifies the places: it is the same for equal places, and different for all others.
func (p *Places) Key() string {
	return fmt.Sprintf("%s/%s/%s/%s", strings.Join(p.Regions, ","), strings.Join(p.Zones, ","), strings.Join(p.Clusters, ","), strings.Join(p.Excluded, ","))
}

// node describes the virtual node that a policy would get, as far as it is known before a provider is chosen.
type node struct {
	labels map[string]string
	// unknown are labels that the node will have with values that are not known yet. No pod can name
	// these values.
	unknown []string
}

func virtualNodeOf(p *Selection) node {
	return node{
		labels: map[string]string{
			corev1.LabelOSStable:                             "linux",
			corev1.LabelArchStable:                           "amd64", // Liqo sets this on all virtual nodes
			liqoTypeLabel:                                    liqoVirtualNode,
			agentv1alpha1.RequestNamespaceLabel:              p.Namespace,
			agentv1alpha1.NamespaceLabelPrefix + p.Namespace: "true",
			agentv1alpha1.BurstLabel:                         p.Name,
		},
		unknown: []string{corev1.LabelHostname, agentv1alpha1.RequestLabel, agentv1alpha1.ReservationLabel, liqoClusterLabel},
	}
}

// placesOf returns where the pod may run, or why it cannot run on the node. The terms of an
// affinity are alternatives: the first one that the node can meet decides.
func placesOf(spec *corev1.PodSpec, n node) (Places, Skip) {
	var own []corev1.NodeSelectorRequirement
	for key, value := range spec.NodeSelector {
		own = append(own, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	terms := []corev1.NodeSelectorTerm{{}}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		// An empty term matches no node. No term with matchFields can match, because they compare the node's name,
		// which is not known yet.
		terms = slices.DeleteFunc(slices.Clone(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms), func(t corev1.NodeSelectorTerm) bool {
			return len(t.MatchExpressions) == 0 || len(t.MatchFields) > 0
		})
	}
	for _, term := range terms {
		if places, ok := n.findPlaces(slices.Concat(own, term.MatchExpressions)); ok {
			return places, ""
		}
	}
	return Places{}, SkipNodeSelector
}

// findPlaces returns where the node must be to meet all requirements, or false if it cannot meet them.
func (n *node) findPlaces(all []corev1.NodeSelectorRequirement) (Places, bool) {
	var p Places
	for _, r := range all {
		if list := p.listFor(r.Key); list != nil && r.Operator == corev1.NodeSelectorOpIn {
			if !restrictList(list, r.Values) {
				return Places{}, false
			}
			continue
		}
		if r.Key == liqoClusterLabel && r.Operator == corev1.NodeSelectorOpNotIn {
			p.Excluded = append(p.Excluded, r.Values...)
			continue
		}
		if !n.meetsRequirement(&r) {
			return Places{}, false
		}
	}
	slices.Sort(p.Excluded)
	p.Excluded = slices.Compact(p.Excluded)
	return p, !excludesAll(p.Clusters, p.Excluded)
}

// excludesAll reports whether a list of places restricts to places that are all excluded. An empty list restricts
// nothing.
func excludesAll(list, excluded []string) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(id string) bool { return !slices.Contains(excluded, id) })
}

func (p *Places) listFor(key string) *[]string {
	switch key {
	case corev1.LabelTopologyRegion:
		return &p.Regions
	case corev1.LabelTopologyZone:
		return &p.Zones
	case liqoClusterLabel:
		return &p.Clusters
	}
	return nil
}

// restrictList removes from a list the places that are not in the second list, and reports whether any place is left. An
// empty list restricts nothing, so it becomes the second list.
func restrictList(list *[]string, to []string) bool {
	values := slices.Compact(slices.Sorted(slices.Values(to)))
	if len(*list) > 0 {
		values = slices.DeleteFunc(values, func(v string) bool { return !slices.Contains(*list, v) })
	}
	*list = values
	return len(values) > 0
}

// meetsRequirement reports whether the node is certain to meet a requirement, whatever provider is chosen.
func (n *node) meetsRequirement(r *corev1.NodeSelectorRequirement) bool {
	if r.Key == corev1.LabelTopologyRegion || r.Key == corev1.LabelTopologyZone {
		return false // the requirement is on region or zone, which the future provider may not have
	}
	value, known := n.labels[r.Key]
	present := known || slices.Contains(n.unknown, r.Key)
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return known && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !known || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return present
	case corev1.NodeSelectorOpDoesNotExist:
		return !present
	}
	return false
}

// Constrain returns the constraints of the template, restricted to the places. It returns false if
// they exclude each other, or if a list would become longer than the schema allows. The template is
// not changed.
func (p *Places) Constrain(template *brokerv1alpha1.Constraints) (*brokerv1alpha1.Constraints, bool) {
	if len(p.Regions)+len(p.Zones)+len(p.Clusters)+len(p.Excluded) == 0 {
		return template.DeepCopy(), true
	}
	c := template.DeepCopy()
	if c == nil {
		c = &brokerv1alpha1.Constraints{}
	}
	for _, of := range []struct {
		list *[]string
		to   []string
	}{{&c.Regions, p.Regions}, {&c.Zones, p.Zones}, {&c.IncludeClusters, p.Clusters}} {
		if len(of.to) > 0 && !restrictList(of.list, of.to) {
			return nil, false
		}
	}
	for _, id := range p.Excluded {
		if !slices.Contains(c.ExcludeClusters, id) {
			c.ExcludeClusters = append(c.ExcludeClusters, id)
		}
	}
	// These are the longest lists that the schema of ResourceRequest allows.
	fits := !excludesAll(c.IncludeClusters, c.ExcludeClusters) && len(c.Regions) <= 16 && len(c.Zones) <= 16 && len(c.IncludeClusters) <= 64 && len(c.ExcludeClusters) <= 64
	return c, fits
}
