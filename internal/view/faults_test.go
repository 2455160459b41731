package view

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// refused is a consumer's cluster with a request that has no provider.
func refused(phase agentv1alpha1.ResourceRequestPhase, reason, message string, candidates ...brokerv1alpha1.Candidate) *Snapshot {
	s := member()
	s.Pods, s.Events, s.Member.Nodes, s.Member.ConsumerInstructions = nil, nil, nil, nil
	s.Member.Requests[0].Status = agentv1alpha1.ResourceRequestStatus{
		Phase: phase, Message: message, ObservedGeneration: 1, Candidates: candidates, Conditions: []metav1.Condition{condition("Ready", "False", reason, time.Minute, message)},
	}
	return s
}

// rejecting is a consumer's cluster in which the provider does not take the pod of a request. warning is the newest
// event about the pod or, if the provider accepts the ShadowPod but refuses its pod, about that; "" if there is none.
func rejecting(warning string) *Snapshot {
	s := member()
	s.Events = nil
	said := warning
	if warning == "" {
		said = "it has no Warning event: see kubectl describe shadowpod in that cluster"
	} else {
		reason, message, _ := strings.Cut(warning, ": ")
		about := corev1.ObjectReference{Kind: "Pod", Namespace: "team", Name: "my-pod"}
		if reason == "FailedCreatePod" {
			about.Kind = "ShadowPod"
		}
		s.Events = append(s.Events, corev1.Event{InvolvedObject: about, Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: ago(time.Minute)})
	}
	for _, conditions := range []*[]metav1.Condition{&s.Member.Requests[0].Status.Conditions, &s.Member.ConsumerInstructions[0].Status.Conditions} {
		last := &(*conditions)[len(*conditions)-1]
		last.Message = `1 pod of node "res-abc-1" not accepted by "paris", such as "team/my-pod": ` + said + "; correct or delete the pod"
	}
	return s
}

// hideFromTeam removes what someone with the role edit in namespace team may not list.
func hideFromTeam(s *Snapshot) *Snapshot {
	s.Member.Nodes, s.Member.ConsumerInstructions = nil, nil
	for _, resource := range []string{"nodes", "reservationinstructions"} {
		s.Gaps = append(s.Gaps, Gap{Kind: Hidden, Resource: resource})
	}
	return s
}

// Each fault that users meet most is explained in few lines, with its remedy. e2e/local stages the same faults.
func TestStoriesNameCauseAndRemedy(t *testing.T) {
	lost := member()
	lost.Pods[0].Spec.NodeName, lost.Pods[0].Spec.NodeSelector[agentv1alpha1.RequestLabel] = "", "my-requests"
	queued := busyBroker()
	larger, smaller := queued.Broker.Reservations[2], queued.Broker.Reservations[0]
	larger.Spec.RequestedResources = brokerv1alpha1.RequestedResources(amounts("nvidia.com/gpu", "2"))
	larger.Status.Phase, larger.Status.Queue = brokerv1alpha1.ReservationQueued, &brokerv1alpha1.QueuePlace{Position: 1}
	smaller.Status.Queue.Position = 2
	unconnected := refused(agentv1alpha1.RequestReserved, "AwaitingNode", "waiting for the virtual node")
	r := unconnected.Member.Requests[0]
	r.Status.Conditions = append(r.Status.Conditions, condition("NetworkConnected", "False", "NetworkPending", time.Minute, `waiting for the network description of "paris": its agent and its Liqo must connect networks, too`))
	denied := busyBroker()
	denied.Broker.Clusters = append(denied.Broker.Clusters, cluster("rome", "Active", 0, condition("Ready", "False", "Denied", time.Minute, "deniedClusters of the BrokerConfig has it")))
	// The scheduler complained about the pod before it had its node, and the condition is about another pod.
	delayed := rejecting("FailedScheduling: 0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector")
	for _, conditions := range [][]metav1.Condition{delayed.Member.Requests[0].Status.Conditions, delayed.Member.ConsumerInstructions[0].Status.Conditions} {
		last := &conditions[len(conditions)-1]
		last.Message = strings.ReplaceAll(last.Message, "team/my-pod", "team/other")
	}
	faults := []struct {
		fault, of     string
		snapshot      *Snapshot
		cause, remedy string
	}{
		{
			"full market", "my-request", refused(agentv1alpha1.RequestFailed, "NoCandidate", "no cluster can hold 900 cpu",
				brokerv1alpha1.Candidate{ClusterID: "paris", Reason: "InsufficientResource", Message: "has 12 cpu free, 900 needed"},
				brokerv1alpha1.Candidate{ClusterID: "rome", Reason: "Self"}),
			"has 12 cpu free, 900 needed", "ask for less",
		},
		{"stale cluster", "oslo", busyBroker(), "Stale for 12m", "see its agent"},
		{
			"quota at the provider", "pod/my-pod", hideFromTeam(rejecting(`FailedCreatePod: Failed to create pod: pods "my-pod" is forbidden: exceeded quota: full`)),
			"the provider does not take the pod: FailedCreatePod", "raise the ResourceQuota in the message",
		},
		{"refused without an event", "pod/my-pod", hideFromTeam(rejecting("")), "not accepted by", "a ResourceQuota there is full"},
		{"pod without limits", "pod/my-pod", hideFromTeam(rejecting("FailedReflection: limits and requests are not equal")), "the provider does not take the pod", "set limits equal to the requests"},
		{"refused a moment ago", "pod/my-pod", delayed, "the provider has not started the pod, and no event says why", "a ResourceQuota there is full"},
		{
			"pod security at the provider", "pod/my-pod", rejecting(`FailedCreatePod: pods "my-pod" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`),
			"runAsNonRoot", "change the fields in the message",
		},
		{"reservation in use", "pod/my-pod", rejecting("FailedReflection: peering res-abc-1 quota usage exceeded - free 0 / requested 1"), "free 0", "kubectl broker resize"},
		{"resource not reserved", "pod/my-pod", rejecting("FailedReflection: nvidia.com/gpu quota limit not found for this peering"), "nvidia.com/gpu", "leave the resource"},
		{"cordoned reservation", "pod/my-pod", rejecting("FailedReflection: user is cordoned"), "user is cordoned", "takes no new pods"},
		{"wrong selector", "pod/my-pod", lost, "the pod selects the request my-requests, which does not exist; namespace team has my-request", "correct the nodeSelector"},
		{
			"missing runtime class", "pod/my-pod", rejecting("FailedReflection: spec.pod.runtimeClassName is gvisor, the operator of this cluster allows none (guard.runtimeClasses)"),
			"runtimeClassName is gvisor", "leave runtimeClassName out",
		},
		{"network not connected", "my-request", unconnected, "NetworkPending for 60s", "networking.mode"},
		{
			"denied cluster", "my-request", refused(agentv1alpha1.RequestFailed, "Refused", `cluster "rome" is denied by the administrator of the broker: spec.deniedClusters of its BrokerConfig has it`),
			"Refused for", "ask the broker's administrator",
		},
		{"denied cluster at the broker", "cadv/rome", denied, "Denied for", "edit the BrokerConfig"},
		{"preempted", "my-request", refused(agentv1alpha1.RequestFailed, "Preempted", "it made room on paris for a request of a higher priority, and no cluster can hold 2 cpu"), "a higher priority", "create another"},
		{"queue behind a larger request", "rsv/third", queued, "res-second of rome, which asks for 2 nvidia.com/gpu", "raise the priority"},
	}
	var all strings.Builder
	for _, f := range faults {
		text, _, _ := strings.Cut(tell(t, f.of, f.snapshot), "\n-o wide\n")
		for _, words := range []string{f.cause, f.remedy} {
			if !strings.Contains(text, words) {
				t.Errorf("%s: without %q:\n%s", f.fault, words, text)
			}
		}
		all.WriteString("# " + f.fault + "\n" + text + "\n")
	}
	compareGolden(t, "why-faults.txt", all.String())
}
