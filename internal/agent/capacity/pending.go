package capacity

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// unboundPods is a field selector for pods without a node. When a pod is bound to a node, a watch
// with this selector reports it as deleted.
const unboundPods = "spec.nodeName=,status.phase=Pending"

// maxPending limits a single amount, for example to 32 TiB of memory. Pods may request more than
// any node has. The sum of a quarter of a million such amounts still fits into an int64.
const maxPending int64 = 1 << 45

// wish describes an unschedulable pod: its requests, when the scheduler first found no node for it
// (since, in Unix seconds), and its kind, which is nil if no BurstPolicy selects the pod.
type wish struct {
	request
	since int64
	kind  *burst.Kind
	// name is the pod's name if a BurstPolicy skips the pod, else "".
	name string
}

// crowd counts the unschedulable pods of one kind and size. Pods that are equal in both share one
// crowd, so that each further pod takes only a few words of memory.
type crowd struct {
	key string
	request
	// kind is nil if no BurstPolicy selects the pods.
	kind *burst.Kind
	pods int
	// since maps a time in Unix seconds to the number of pods that became unschedulable then. It is
	// nil if kind is nil.
	since map[int64]int
	// examples are the names of a few skipped pods.
	examples map[podKey]string
}

// maxExamples is how many skipped pods of a crowd are known by name.
const maxExamples = 10

// wishRecord is the record of one unschedulable pod.
type wishRecord struct {
	crowd *crowd
	since int64
}

// demand sums the requests of unschedulable pods.
type demand struct {
	pods   map[podKey]wishRecord
	crowds map[string]*crowd
	sum    quantity.Amounts
	// oldest is the smallest value of wishRecord.since over all pods. When the pod with this value
	// is removed, oldest is set to 0, and waitingSince computes it again.
	oldest int64
	// changed is called with the kind of a crowd that has changed; nil if there are no BurstPolicies.
	changed func(*burst.Kind)
}

func newDemand() *demand {
	return &demand{pods: map[podKey]wishRecord{}, crowds: map[string]*crowd{}, sum: quantity.Amounts{}}
}

// setPod reports whether the sums, or the time since which the pod waits, changed. A nil wish removes it.
func (d *demand) setPod(key podKey, wants *wish) bool {
	old, was := d.pods[key]
	switch {
	case wants == nil && !was:
		return false
	case wants != nil && was && wants.since == old.since && wants.equal(&old.crowd.request):
		if wants.crowdKey() != old.crowd.key {
			d.leaveCrowd(key, old)
			d.joinCrowd(key, wants)
		}
		return false
	case was:
		old.crowd.addTo(d.sum, -1)
		d.leaveCrowd(key, old)
		if old.since == d.oldest {
			d.oldest = 0
		}
	}
	if wants != nil {
		wants.addTo(d.sum, +1)
		d.joinCrowd(key, wants)
		if len(d.pods) == 1 || wants.since < d.oldest {
			d.oldest = wants.since
		}
	}
	// Amounts of zero are removed. Otherwise the map could grow without limit, because unschedulable
	// pods may request any number of resource names.
	maps.DeleteFunc(d.sum, func(_ corev1.ResourceName, amount int64) bool { return amount == 0 })
	return true
}

// crowdKey returns a text that is the same for pods of one crowd, and different for all others.
func (w *wish) crowdKey() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d", w.milliCPU, w.memory, w.ephemeral)
	for _, o := range w.others {
		fmt.Fprintf(&b, " %s=%d", o.name, o.amount)
	}
	if w.kind != nil {
		b.WriteString("\n" + w.kind.Key())
	}
	return b.String()
}

func (d *demand) joinCrowd(key podKey, wants *wish) {
	id := wants.crowdKey()
	c := d.crowds[id]
	if c == nil {
		c = &crowd{key: id, request: wants.request, kind: wants.kind}
		if c.kind != nil {
			c.since = map[int64]int{}
		}
		d.crowds[id] = c
	}
	c.pods++
	d.pods[key] = wishRecord{c, wants.since}
	if c.kind == nil {
		return
	}
	c.since[wants.since]++
	if c.kind.Skip != "" && len(c.examples) < maxExamples {
		if c.examples == nil {
			c.examples = map[podKey]string{}
		}
		c.examples[key] = strings.Clone(wants.name)
	}
	d.noteChange(c)
}

func (d *demand) leaveCrowd(key podKey, was wishRecord) {
	c := was.crowd
	delete(d.pods, key)
	if c.pods--; c.pods == 0 {
		delete(d.crowds, c.key)
	}
	if c.kind == nil {
		return
	}
	if c.since[was.since]--; c.since[was.since] == 0 {
		delete(c.since, was.since)
	}
	delete(c.examples, key)
	d.noteChange(c)
}

func (d *demand) noteChange(c *crowd) {
	if d.changed != nil {
		d.changed(c.kind)
	}
}

func (d *demand) removePod(key podKey) bool { return d.setPod(key, nil) }

func (d *demand) replacePods(wants map[podKey]*wish) bool {
	return replaceAll(d.pods, wants, d.setPod, d.removePod)
}

// waitingSince returns when the scheduler first found no node for the pod that has waited longest;
// the zero time if no pod waits.
func (d *demand) waitingSince() time.Time {
	if len(d.pods) == 0 {
		return time.Time{}
	}
	if d.oldest == 0 {
		d.oldest = math.MaxInt64
		for _, w := range d.pods {
			d.oldest = min(d.oldest, w.since)
		}
	}
	return time.Unix(d.oldest, 0)
}

// demandOf returns the requests of one of this cluster's own pods if the scheduler finds no node
// for it, otherwise nil. It ignores pods that the scheduler has not tried yet, and pods with a
// scheduling gate, which are not meant to run yet. It also ignores pods that select the node of a
// ResourceRequest, because the cluster has already asked the broker for their capacity. A pod for
// which the scheduler has nominated a node here, and evicts other pods, has no kind, whatever
// policies select it.
func demandOf(pod *corev1.Pod, policies []burst.Selection) *wish {
	since, unschedulable := unschedulableSince(pod)
	if pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil ||
		!unschedulable || PlacementOf(&pod.ObjectMeta) != "" || pod.Spec.NodeSelector[agentv1alpha1.RequestLabel] != "" {
		return nil
	}
	w := wish{request: requestOf(pod), since: since}
	w.limitAmounts(maxPending)
	if len(policies) > 0 && pod.Status.NominatedNodeName == "" {
		if w.kind = burst.KindOf(pod, policies); w.kind != nil && w.kind.Skip != "" {
			w.name = pod.Name
		}
	}
	return &w
}

// unschedulableSince reports whether the scheduler finds no node for a pod, and since when, in Unix
// seconds. If the pod's condition has no time, the pod's creation counts.
func unschedulableSince(pod *corev1.Pod) (since int64, unschedulable bool) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			began := c.LastTransitionTime
			if began.IsZero() {
				began = pod.CreationTimestamp
			}
			return max(began.Unix(), 1), c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		}
	}
	return 0, false
}
