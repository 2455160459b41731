package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// The agent drains an ended placement before it deletes the slice, because Liqo's own drain has two
// defects: it never ends while a disruption budget protects a pod, and it removes the virtual
// kubelet once any pod has ended, although other pods are still terminating.
//
//	begin (record the deadline) ─▶ cordon ─▶ evict ─┬─▶ no pod is left ─▶ delete the slice
//	                                                └─▶ the deadline passes ─▶ delete the pods ─▶ ...
const (
	// drainInterval is how often a drain checks its pods.
	drainInterval = time.Second
	// tryAgain is the delay before a refused eviction is repeated.
	tryAgain = 2 * time.Second
	// maxPodsPerStep is how many pods one check evicts or deletes at most. The other placements must
	// wait until the check is done.
	maxPodsPerStep = 20
	// reportSlack is how long the drain waits for a pod after its grace period, because the provider
	// reports with a delay that the pod has ended.
	reportSlack = 10 * time.Second
)

// DrainView is the progress of the drain of an ended placement's virtual node.
type DrainView struct {
	Now time.Time
	// Begun is when the eviction of pods began, and Deadline is when it ends. Both are zero
	// before they are recorded.
	Begun, Deadline time.Time
	// SuccessorComes is true while a later placement of the same reservation is being set up:
	// it has not ended, and its node is not Ready yet.
	SuccessorComes bool
	// Pods are the pods that must leave the node. They do not include mirror pods and pods of
	// DaemonSets. They are listed only once the node is cordoned.
	Pods []PodView
}

// PodView is a pod on a virtual node that is being drained.
type PodView struct {
	Namespace, Name string
	UID             types.UID
	// GraceEnds is when the pod's grace period ends; zero if the pod is not terminating.
	GraceEnds time.Time
	// Tried is when an eviction or deletion of the pod was last refused. Refusal is the reason.
	Tried   time.Time
	Refusal string
}

func (p *PodView) isTerminating() bool { return !p.GraceEnds.IsZero() }

// planDrain returns the next actions of the drain and its progress. done is true when the slice can be
// deleted.
func planDrain(v ConsumerView) (actions []Action, drained placement.Aspect, done bool) {
	if !v.Node.Exists || v.Reach.GivenUp {
		return nil, drainedAspect(v), true
	}
	if v.Drain.Begun.IsZero() {
		actions = append(actions, Action{Do: BeginDrain})
	}
	if !v.Node.Cordoned {
		actions = append(actions, Action{Do: CordonNode})
	}
	if len(actions) > 0 {
		return actions, placement.Waiting(agentv1alpha1.ReasonDraining, "node %q is about to be drained", v.Name), false
	}
	left := v.awaitedPods()
	if len(left) == 0 {
		return nil, drainedAspect(v), true
	}
	return v.evictSome(), drainingAspect(v, left), false
}

// awaitedPods returns the pods that the drain still waits for. It leaves out three kinds of pods:
//   - terminating pods while the node is not Ready, because the provider cannot report that they
//     have ended;
//   - terminating pods for which both the grace period and the drain's deadline passed more than
//     reportSlack ago;
//   - pods that the API server refused to delete after the deadline.
func (v *ConsumerView) awaitedPods() (left []PodView) {
	d := &v.Drain
	for _, p := range d.Pods {
		switch {
		case p.isTerminating() && !v.Node.Ready:
		case p.isTerminating() && !d.Now.Before(slices.MaxFunc([]time.Time{d.Deadline, p.GraceEnds}, time.Time.Compare).Add(reportSlack)):
		case !p.isTerminating() && p.Refusal != "" && !p.Tried.Before(d.Deadline):
			// Liqo's own drain, which follows, keeps trying to delete the pod.
		default:
			left = append(left, p)
		}
	}
	return left
}

// evictSome returns an action that evicts up to maxPodsPerStep pods or, after the deadline, deletes
// them. The pods that were tried least recently come first. It returns nothing while
// awaitsSuccessor holds, or if each pod was tried less than tryAgain ago.
func (v *ConsumerView) evictSome() []Action {
	d := &v.Drain
	if v.awaitsSuccessor() {
		return nil
	}
	var due []PodView
	for _, p := range d.Pods {
		if !p.isTerminating() && (p.Tried.IsZero() || d.Now.Sub(p.Tried) >= tryAgain || d.isOverdue() && p.Tried.Before(d.Deadline)) {
			due = append(due, p)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.SortFunc(due, func(a, b PodView) int {
		return cmp.Or(a.Tried.Compare(b.Tried), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	verb := EvictPods
	if d.isOverdue() {
		verb = RemovePods
	}
	return []Action{{Do: verb, Pods: due[:min(len(due), maxPodsPerStep)]}}
}

func (d *DrainView) isOverdue() bool { return !d.Now.Before(d.Deadline) }

// awaitsSuccessor reports whether the drain waits until the node of the reservation's next
// placement is Ready, so that evicted pods can start there. It waits for at most half of the
// drain's time; the other half is for pods that a disruption budget protects.
func (v *ConsumerView) awaitsSuccessor() bool {
	d := &v.Drain
	return d.SuccessorComes && d.Now.Before(d.Begun.Add(d.Deadline.Sub(d.Begun)/2))
}

func drainedAspect(v ConsumerView) placement.Aspect {
	still := 0
	if v.Node.Exists {
		still = len(v.Drain.Pods)
	}
	if still == 0 {
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonDrained, Message: fmt.Sprintf("no pod is left on node %q", v.Name)}
	}
	why := "are still there after their grace period"
	if !v.Node.Ready {
		why = fmt.Sprintf("were deleted, and %q cannot be reached to confirm it", v.Provider)
	}
	return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonDrainedPartly, Message: fmt.Sprintf("node %q is removed: %s on it %s", v.Name, countOf(still, "pod"), why)}
}

// drainingAspect says how many pods are left, why they cannot be evicted, and when they are deleted.
func drainingAspect(v ConsumerView, left []PodView) placement.Aspect {
	ending := 0
	var refused []PodView
	for _, p := range left {
		switch {
		case p.isTerminating():
			ending++
		case p.Refusal != "":
			refused = append(refused, p)
		}
	}
	until := v.Drain.Deadline.UTC().Format(time.RFC3339)
	are := fmt.Sprintf("%s left on node %q, %d of them terminating", countOf(len(left), "pod"), v.Name, ending)
	switch {
	case v.Drain.isOverdue():
		return placement.Waiting(agentv1alpha1.ReasonDrainOverdue, "%s; the time to evict them was over at %s, and they are deleted with their grace period%s", are, until, listRefusals(refused))
	case v.awaitsSuccessor():
		return placement.Waiting(agentv1alpha1.ReasonDraining, "%s; they are evicted once the reservation's next node is Ready", are)
	case len(refused) > 0:
		return placement.Waiting(agentv1alpha1.ReasonDrainBlocked, "%s; what is left at %s is deleted%s", are, until, listRefusals(refused))
	}
	return placement.Waiting(agentv1alpha1.ReasonDraining, "%s; what is left at %s is deleted", are, until)
}

// shownRefusals is how many reasons listRefusals lists at most, to bound the length of a
// message.
const shownRefusals = 3

// listRefusals lists up to shownRefusals reasons, each with one pod and the number of others.
func listRefusals(pods []PodView) string {
	held := map[string][]string{}
	for _, p := range pods {
		held[p.Refusal] = append(held[p.Refusal], p.Namespace+"/"+p.Name)
	}
	var why []string
	for refusal, names := range held {
		slices.Sort(names)
		who := names[0]
		if more := len(names) - 1; more > 0 {
			who = fmt.Sprintf("%s and %d more", who, more)
		}
		why = append(why, fmt.Sprintf("; %s cannot be evicted: %s", who, refusal))
	}
	slices.Sort(why)
	return strings.Join(why[:min(len(why), shownRefusals)], "")
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
