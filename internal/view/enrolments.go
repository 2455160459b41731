package view

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Enrolments is the output of the command enrolments: the clusters that ask to take part, and those that the
// BrokerConfig approves or denies.
type Enrolments struct {
	metav1.TypeMeta `json:",inline"`
	Items           []Enrolment `json:"items"`
}

// Values of Enrolment.State.
const (
	EnrolmentPending  = "Pending"
	EnrolmentApproved = "Approved"
	EnrolmentDenied   = "Denied"
)

// Enrolment is a cluster with the fingerprint of its key: the key with which the cluster asks to enrol, or for which it
// is approved.
type Enrolment struct {
	ClusterID string      `json:"clusterID"`
	State     string      `json:"state"`
	Key       string      `json:"key,omitempty"`
	Since     metav1.Time `json:"since,omitzero"`
	LastAsked metav1.Time `json:"lastAsked,omitzero"`
}

// NewEnrolments returns the enrolments in a BrokerConfig: first the pending ones, then the approved ones, then the
// denied ones. Each group has the order of the BrokerConfig.
func NewEnrolments(config *brokerv1alpha1.BrokerConfig) *Enrolments {
	out := &Enrolments{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: "Enrolments"}, Items: []Enrolment{}}
	for _, p := range config.Status.PendingEnrolments {
		out.Items = append(out.Items, Enrolment{ClusterID: p.ClusterID, State: EnrolmentPending, Key: p.KeyFingerprint, Since: p.Since, LastAsked: p.LastAsked})
	}
	for _, a := range config.Spec.ApprovedClusters {
		out.Items = append(out.Items, Enrolment{ClusterID: a.ClusterID, State: EnrolmentApproved, Key: a.KeyFingerprint})
	}
	for _, id := range config.Spec.DeniedClusters {
		out.Items = append(out.Items, Enrolment{ClusterID: id, State: EnrolmentDenied})
	}
	return out
}

// Table returns the enrolments as a table of text.
func (e *Enrolments) Table(at time.Time) Table {
	s := &Snapshot{At: at}
	t := Table{Columns: []Column{{Name: "Cluster"}, {Name: "State"}, {Name: "First asked"}, {Name: "Last asked"}, {Name: "Key"}}}
	for _, item := range e.Items {
		first, last := "-", "-"
		if !item.Since.IsZero() {
			first, last = s.Age(item.Since.Time)+" ago", s.Age(item.LastAsked.Time)+" ago"
		}
		t.Rows = append(t.Rows, Row{Ref: Ref{Kind: "BrokerConfig", Name: brokerv1alpha1.BrokerConfigName}, Cells: []string{item.ClusterID, item.State, first, last, cmp.Or(item.Key, "-")}})
	}
	return t
}
