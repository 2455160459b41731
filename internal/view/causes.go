package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// refusal is a part of a message that says why a pod does not run, or why networks are not connected, and the remedy.
type refusal struct{ part, do string }

// refusals contain the messages that users meet. The first part that a message contains counts.
var (
	providerRefusals = []refusal{
		{"requests not set", "set requests of cpu and memory, and limits equal to them, for every container"},
		{"limits and requests are not equal", "set limits equal to the requests of cpu and memory for every container"},
		{"limits not set", "set limits equal to the requests of cpu and memory for every container"},
		{"exceeded quota", "ask the provider's operator to raise the ResourceQuota in the message, or run less"},
		{"runtimeClassName", "leave runtimeClassName out, or ask the provider's operator to add the class to guard.runtimeClasses"},
		{"RuntimeClass", "leave runtimeClassName out, or ask the provider's operator to create the RuntimeClass"},
		{"has no Warning event", "ask the provider's operator for kubectl describe shadowpod: often a ResourceQuota there is full, or the RuntimeClass is missing"},
		{"violates PodSecurity", "change the fields in the message: the provider admits only pods of this Pod Security Standard"},
		{"quota usage exceeded", "make the pod smaller, or have the request grow with kubectl broker resize"},
		{"quota limit not found", "leave the resource in the message out, or create a request that has it"},
		{"user is cordoned", "ask the provider's operator why it takes no new pods of this reservation, or create another request"},
		{"no live reservation", "see the provider's agent, or delete the pod if the reservation is over"},
		{"ValidatingAdmissionPolicy", "change the field in the message"},
		{"without a node at", "make the pod smaller, loosen its constraints, or ask for podShapes of its size"},
		{"nodes are available", "make the pod smaller, loosen its constraints, or ask for podShapes of its size"},
	}
	schedulerRefusals = []refusal{
		{"Insufficient", "make the pod smaller, or have the request grow with kubectl broker resize"},
		{"untolerated taint", "create the pod again: it is older than the agent's webhook, or selects the node by another label than " + agentv1alpha1.RequestLabel},
		{"node affinity/selector", "wait for the request's node; if it is Ready, remove the pod's other node selectors"},
	}
	networkObstacles = []refusal{
		{"this cluster's networks", "start Liqo's networking module in this cluster, or set networking.mode=disabled for its agent"},
		{"network description of", "ask the provider's operator to set networking.mode=enabled for its agent and to run Liqo's networking module"},
	}
)

// remedyFor returns the remedy for the message of a refusal; "" if it is not known.
func remedyFor(known []refusal, text string) string {
	for _, r := range known {
		if strings.Contains(text, r.part) {
			return r.do
		}
	}
	return ""
}

// causes collects the steps of a story: each cause once, although the objects of several clusters report it.
type causes struct {
	steps  []Step
	topics []string
}

// add adds a step unless there is one about the same topic.
func (c *causes) add(topic string, step Step) {
	if !slices.Contains(c.topics, topic) {
		c.topics = append(c.topics, topic)
		c.steps = append(c.steps, step)
	}
}

// adviseSteps fills Next with the next steps: the causes, the most urgent first; if no provider was found, the remedies
// for rejected candidates; and last how to see the objects in clusters that were not read.
func (st *Story) adviseSteps(snapshots []*Snapshot, related [][]Ref) {
	found := &st.causes
	slices.SortStableFunc(found.steps, func(a, b Step) int { return cmp.Compare(urgencyOf(b.Level), urgencyOf(a.Level)) })
	if st.chosenCandidate() == nil {
		for _, reason := range st.rejectionsByCount() {
			if do := PlainText(reasonOf(OfCandidate, reason).Do); do != "" {
				found.add("candidate "+reason, Step{Text: reason, Do: do, ofCandidate: true})
			}
		}
	}
	if len(found.steps) == 0 && st.Subject.Kind == "Pod" && st.Phase == string(corev1.PodPending) && snapshots[0].reservationOfRef(st.Subject) != "" {
		found.add("pod", Step{Text: "the provider has not started the pod, and no event says why", Do: "if it lasts, " + remedyFor(providerRefusals, "has no Warning event")})
	}
	st.adviseOtherSide(snapshots, related)
	if st.Next = found.steps; len(st.Next) == 0 {
		st.Next = []Step{{Text: "nothing"}}
	}
}

// explainCondition adds a step if a condition says why its object is not as it should be. level is Normal for a problem
// that is too young to need attention; it counts too, because the user asks about this object.
func (st *Story) explainCondition(s *Snapshot, o *object, c *metav1.Condition, level Level) {
	term := reasonOf(o.Ref.subject(), c.Reason)
	taken := c.Status == metav1.ConditionTrue && (c.Type == brokerv1alpha1.ConditionPreempted || c.Type == brokerv1alpha1.ConditionRecalled)
	notReady := c.Status == metav1.ConditionFalse && c.Type == brokerv1alpha1.ConditionReady
	if o.Phase == string(brokerv1alpha1.ReservationReleased) || term.Means == "" || term.Level == Normal && !taken && !notReady {
		return
	}
	if term.Word == agentv1alpha1.ReasonPodsRejected && st.Subject.Kind == "Pod" && !strings.Contains(c.Message, st.Subject.Namespace+"/"+st.Subject.Name) {
		return // the condition is about another pod
	}
	do := PlainText(term.Do)
	switch {
	case term.Word == agentv1alpha1.ReasonPodsRejected:
		do = cmp.Or(remedyFor(providerRefusals, c.Message), do)
	case term.Word == agentv1alpha1.ReasonNetworkPending:
		do = cmp.Or(remedyFor(networkObstacles, c.Message), do)
	case term.Word == agentv1alpha1.ReasonQueued && o.Queue != nil:
		do = cmp.Or(PlainText(reasonOf(OfQueue, o.Queue.Reason).Do), do)
	}
	text := term.Word + " for " + s.Age(conditionSince(o, c)) + ": " + cmp.Or(c.Message, PlainText(term.Means))
	st.causes.add(term.Word, Step{Level: level, Text: text, Do: do})
}

// explainPod adds a step that says why a pod does not run on a virtual node: it selects no request or one that does not
// exist, no node takes it, or the provider refuses it.
func (st *Story) explainPod(s *Snapshot) {
	pod, found := s.findPod(st.Subject), &st.causes
	name, reservation := pod.Spec.NodeSelector[agentv1alpha1.RequestLabel], s.reservationOfNode(pod.Spec.NodeName)
	add := func(level Level, do, text string, args ...any) {
		found.add("pod", Step{Level: level, Text: fmt.Sprintf(text, args...), Do: do})
	}
	switch {
	case name != "" && s.requestOfPod(pod) == nil:
		add(Warning, "correct the nodeSelector "+agentv1alpha1.RequestLabel+", or create the ResourceRequest", "the pod selects the request %s, which does not exist; %s", name, s.listRequests(pod.Namespace))
	case pod.Spec.NodeName == "":
		why := unscheduledMessage(pod)
		do := remedyFor(schedulerRefusals, why)
		if name == "" {
			do = "set the nodeSelector " + agentv1alpha1.RequestLabel + " to the name of a request, to run it on a virtual node"
		}
		add(Warning, do, "the scheduler has no node for the pod%s", withPrefix(": ", why))
	case reservation == "" && name == "" && reservationOf(pod.Labels[copyLabel]) == "" && len(s.gapsOf("nodes")) == 0:
		add(Normal, "set the nodeSelector "+agentv1alpha1.RequestLabel+" to the name of a request, to run it on a virtual node", "the pod selects no request, so it runs in this cluster")
	case reservation != "" && pod.Status.Phase == corev1.PodPending:
		if why := s.newestWarning(pod); why != "" {
			found.topics = append(found.topics, agentv1alpha1.ReasonPodsRejected) // the condition quotes the event of one such pod
			add(Warning, remedyFor(providerRefusals, why), "the provider does not take the pod: %s", why)
		}
	}
}

// unscheduledMessage returns why the scheduler found no node for a pod; "" if the pod does not say.
func unscheduledMessage(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// newestWarning returns the reason and message of the newest Warning event about a pod on a virtual node. It ignores the
// agent's, and those of this cluster's scheduler, which are older than the pod's node.
func (s *Snapshot) newestWarning(pod *corev1.Pod) string {
	var newest *corev1.Event
	for i := range s.Events {
		e := &s.Events[i]
		if AboutOf(e).Kind != "Pod" || e.InvolvedObject.Name != pod.Name || e.InvolvedObject.UID != pod.UID || e.Type != corev1.EventTypeWarning || e.Reason == agentv1alpha1.ReasonPodsRejected {
			continue
		}
		isRemote := strings.HasSuffix(e.Source.Component, "(remote)") // Liqo's copy of an event of the provider
		if (e.Reason != "FailedScheduling" || isRemote) && (newest == nil || eventTime(e).After(eventTime(newest))) {
			newest = e
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Reason + ": " + newest.Message
}

// listRequests says which requests a namespace has.
func (s *Snapshot) listRequests(namespace string) string {
	var names []string
	for _, r := range s.Member.Requests {
		if r.Namespace == namespace {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return "namespace " + namespace + " has " + cmp.Or(strings.Join(names, ", "), "none")
}

// rejectionsByCount returns the reasons for rejections, the most frequent first.
func (st *Story) rejectionsByCount() []string {
	counts := st.Rejected
	if len(counts) == 0 {
		counts = map[string]int32{}
		for _, c := range st.Candidates {
			counts[c.Reason]++
		}
	}
	return sortByCount(counts)
}

// chosenCandidate returns the candidate that the last decision chose, or nil if it chose none.
func (st *Story) chosenCandidate() *CandidateRow {
	i := slices.IndexFunc(st.Candidates, func(c CandidateRow) bool { return c.Reason == "" })
	if i < 0 {
		return nil
	}
	return &st.Candidates[i]
}

// adviseOtherSide adds a step that says how to see the objects in other clusters that belong to the reservation, if
// they were not read. It adds nothing if the subject has no reservation, or its phase says that no placement exists.
func (st *Story) adviseOtherSide(snapshots []*Snapshot, related [][]Ref) {
	reservation := snapshots[0].reservationOfRef(st.Subject)
	placed := []string{"Active", "Reserved", "Releasing", "Peering", "AwaitingNode"}
	if reservation == "" || !slices.Contains(placed, st.Phase) {
		return
	}
	var missing []string
	for _, side := range []struct{ kind, name string }{
		{"Reservation", "the broker's side"}, {"ReservationInstruction", "the consumer's side"}, {"ProviderInstruction", "the provider's side"},
	} {
		if !slices.ContainsFunc(slices.Concat(related...), func(r Ref) bool { return r.Kind == side.kind }) {
			missing = append(missing, side.name)
		}
	}
	if len(missing) > 0 {
		st.causes.add("other side", Step{Text: "to see " + strings.Join(missing, " and ") + " as well, name the contexts of those clusters", Command: "kubectl broker why " + reservation + " --also CONTEXT,..."})
	}
}
