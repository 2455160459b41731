package clusteradvertisement

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
)

// Show returns the ClusterAdvertisement that the controller would write for a cluster. If no
// administrator wrote the cluster's object, the object is in namespace. All conditions get the
// last transition time changed.
func Show(v *broker.ClusterView, namespace string, changed time.Time) *brokerv1alpha1.ClusterAdvertisement {
	obj := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v.ClusterID}}
	if v.Source != nil {
		obj.Namespace, obj.Name = v.Source.Namespace, v.Source.Name
	}
	obj.Spec = agentSpec(v, &brokerv1alpha1.ClusterAdvertisementSpec{})
	written := obj.Spec
	obj.Spec = specOf(v, &written)
	obj.Status = statusOf(v, obj)
	for i := range obj.Status.Conditions {
		obj.Status.Conditions[i].LastTransitionTime = metav1.NewTime(changed)
	}
	return obj
}
