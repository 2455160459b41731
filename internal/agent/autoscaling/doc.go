// Package autoscaling has the types of autoscaling.x-k8s.io that the agent serves, and translates their pods and
// parameters into the spec of a ResourceRequest.
//
// The types are copies of those in kubernetes/autoscaler, cluster-autoscaler/apis. That module blank-imports test
// frameworks and code generators, which the agent would have to link.
//
// +kubebuilder:object:generate=true
package autoscaling
