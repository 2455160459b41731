package view

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// noon is when all snapshots of these tests are taken.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

func condition(kind, status, reason string, since time.Duration, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, LastTransitionTime: ago(since), Message: message}
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1, CreationTimestamp: ago(time.Hour)}
}

func cluster(id, phase string, holds int32, conditions ...metav1.Condition) *brokerv1alpha1.ClusterAdvertisement {
	c := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: named("broker", id)}
	c.Spec = brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: id, Resources: brokerv1alpha1.ResourceMetrics{
		Allocatable: amounts("cpu", "10", "memory", "40Gi"), Allocated: amounts("cpu", "2", "memory", "10Gi"),
		Reserved: amounts("cpu", "5", "memory", "10Gi"), Available: amounts("cpu", "3", "memory", "20Gi"),
	}}
	c.Status = brokerv1alpha1.ClusterAdvertisementStatus{Phase: phase, Reservations: holds, ObservedGeneration: 1, Conditions: conditions}
	return c
}

func reservation(name string, phase brokerv1alpha1.ReservationPhase, conditions ...metav1.Condition) *brokerv1alpha1.Reservation {
	r := &brokerv1alpha1.Reservation{ObjectMeta: named("broker", name)}
	r.Spec = brokerv1alpha1.ReservationSpec{RequesterID: "rome", RequestedResources: brokerv1alpha1.RequestedResources(amounts("cpu", "2", "memory", "4Gi"))}
	r.Status = brokerv1alpha1.ReservationStatus{Phase: phase, ReservationName: "res-" + name, ObservedGeneration: 1, Conditions: conditions}
	return r
}

// busyBroker is a broker's cluster with some problems.
func busyBroker() *Snapshot {
	waiting := reservation("third", brokerv1alpha1.ReservationQueued, condition("Ready", "False", "Queued", 48*time.Minute, "waits for capacity"))
	waiting.Status.Queue = &brokerv1alpha1.QueuePlace{Position: 1, Since: new(ago(48 * time.Minute)), Until: new(ago(-12 * time.Minute)), Reason: "NoCandidate"}
	waiting.Status.Rejected = map[string]int32{"InsufficientResource": 5, "TooExpensive": 1, "Self": 1}
	waiting.Status.Candidates = []brokerv1alpha1.Candidate{
		{ClusterID: "paris", Reason: "InsufficientResource", Message: "has 1 cpu free, 2 needed"},
		{ClusterID: "oslo", Reason: "Stale", Message: "has stopped advertising"},
	}
	good := condition("Ready", "True", "Active", time.Hour, "")
	served := reservation("first", brokerv1alpha1.ReservationActive, good)
	served.Status.TargetClusterID, served.Status.Granted = "oslo", &brokerv1alpha1.Granted{Resources: amounts("cpu", "2"), Until: new(ago(-time.Hour))}
	return &Snapshot{
		Context: "broker", At: noon,
		Broker: &BrokerObjects{
			Clusters: []*brokerv1alpha1.ClusterAdvertisement{
				cluster("paris", "Active", 3, good), cluster("bern", "Active", 1, good),
				cluster("oslo", "Stale", 4, condition("Ready", "False", "Stale", 12*time.Minute, "silent since 11:48"), condition("Fresh", "False", "Stale", 12*time.Minute, "silent since 11:48")),
			},
			Reservations: []*brokerv1alpha1.Reservation{
				waiting, served,
				reservation("second", brokerv1alpha1.ReservationReserved, condition("Ready", "False", "Reserved", time.Minute, "capacity is held")),
			},
			Config: &brokerv1alpha1.BrokerConfig{ObjectMeta: named("", "default"), Status: brokerv1alpha1.BrokerConfigStatus{
				Conditions:        []metav1.Condition{condition("Ready", "True", "Applied", time.Hour, "")},
				PendingEnrolments: []brokerv1alpha1.PendingEnrolment{{ClusterID: "turin", KeyFingerprint: "sha256:9f2c", Since: ago(3 * time.Minute)}},
			}},
		},
	}
}

// member is the cluster of a consumer with one request that has a provider, and a pod on its node.
func member() *Snapshot {
	r := agentv1alpha1.ResourceRequest{ObjectMeta: named("team", "my-request")}
	r.Spec.CPU, r.Spec.Memory = new(amounts("cpu", "2")["cpu"]), new(amounts("memory", "4Gi")["memory"])
	r.Status = agentv1alpha1.ResourceRequestStatus{
		Phase: agentv1alpha1.RequestActive, Reason: "PodsRejected", ReservationName: "res-abc", TargetClusterID: "paris", NodeName: "res-abc-1", ObservedGeneration: 1,
		Granted: &brokerv1alpha1.Granted{Resources: amounts("cpu", "2", "memory", "4Gi")}, ReservedAt: new(ago(30 * time.Minute)),
		RequestedBy: "alice, as reported by rome", Cost: &brokerv1alpha1.ReservationCost{PerHour: "0.84", SoFar: "0.1", AsOf: new(ago(30 * time.Minute)), Currency: "EUR"},
		Candidates: []brokerv1alpha1.Candidate{
			{ClusterID: "paris", Score: "91.20", PricePerHour: "0.84", Currency: "EUR"},
			{ClusterID: "berlin", Score: "88.00", Reason: "LowerScore", PricePerHour: "1.14", Currency: "EUR"},
		},
		Conditions: []metav1.Condition{
			condition("Ready", "True", "NodeReady", 30*time.Minute, "the node is Ready"),
			condition("Healthy", "False", "PodsRejected", 10*time.Minute, "pod team/my-pod has no copy"),
		},
	}
	i := agentv1alpha1.ReservationInstruction{ObjectMeta: named("agent", "res-abc-1")}
	i.Spec.ReservationName, i.Spec.Placement, i.Spec.TargetClusterID = "res-abc", 1, "paris"
	i.Status.Conditions = []metav1.Condition{condition("Healthy", "False", "PodsRejected", 10*time.Minute, "pod team/my-pod has no copy")}
	labels := agentv1alpha1.RequestNodeLabels("team", "my-request")
	labels[agentv1alpha1.ReservationLabel] = "res-abc"
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "res-abc-1", Labels: labels}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: ago(30 * time.Minute)}}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "my-pod"}, Spec: corev1.PodSpec{NodeName: "res-abc-1", NodeSelector: map[string]string{agentv1alpha1.RequestLabel: "my-request"}}}
	pod.Status.Phase = corev1.PodPending
	return &Snapshot{
		Context: "rome", At: noon, Pods: []*corev1.Pod{&pod},
		Member: &MemberObjects{
			Requests: []*agentv1alpha1.ResourceRequest{&r}, ConsumerInstructions: []*agentv1alpha1.ReservationInstruction{&i}, Nodes: []*corev1.Node{&node},
			Advertisements: []*agentv1alpha1.Advertisement{{ObjectMeta: named("agent", "cluster-advertisement"), Spec: agentv1alpha1.AdvertisementSpec{
				ClusterID: "rome", Resources: brokerv1alpha1.ResourceMetrics{Allocatable: amounts("cpu", "8"), Available: amounts("cpu", "8")},
			}, Status: agentv1alpha1.AdvertisementStatus{Conditions: []metav1.Condition{condition("Ready", "True", "Published", time.Hour, "")}}}},
		},
		Events: []corev1.Event{
			{InvolvedObject: corev1.ObjectReference{Kind: "ResourceRequest", Namespace: "team", Name: "my-request"}, Type: "Normal", Reason: "Reserved", Message: "paris holds it", LastTimestamp: ago(30 * time.Minute)},
			{InvolvedObject: corev1.ObjectReference{Kind: "ResourceRequest", Namespace: "team", Name: "another"}, Type: "Normal", Reason: "Reserved", Message: "not of this story"},
		},
	}
}

// largeFleet is a broker's cluster with the given numbers of objects.
func largeFleet(clusters, reservations int) *Snapshot {
	s := &Snapshot{Context: "broker", At: noon, Broker: &BrokerObjects{}}
	good := condition("Ready", "True", "Active", time.Hour, "")
	for i := range clusters {
		s.Broker.Clusters = append(s.Broker.Clusters, cluster(fmt.Sprintf("cluster-%04d", i), "Active", 10, good))
	}
	for i := range reservations {
		s.Broker.Reservations = append(s.Broker.Reservations, reservation(fmt.Sprintf("r%05d", i), brokerv1alpha1.ReservationActive, good))
	}
	return s
}
