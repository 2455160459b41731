package capacitybuffer

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
)

// source is the object that says for which pods a buffer keeps room: a PodTemplate or a workload. template and replicas
// point into the object, which is empty until it is read.
type source struct {
	kind, name string
	object     client.Object
	template   *corev1.PodTemplateSpec
	replicas   **int32
}

func sourceOf(spec *autoscaling.CapacityBufferSpec) (source, error) {
	if spec.PodTemplateRef != nil {
		t := &corev1.PodTemplate{}
		return source{"pod template", spec.PodTemplateRef.Name, t, &t.Template, nil}, nil
	}
	ref := spec.ScalableRef
	if ref == nil {
		return source{}, newInvalidBuffer(agentv1alpha1.ReasonInvalid, "set spec.podTemplateRef or spec.scalableRef")
	}
	switch ref.APIGroup + "/" + ref.Kind {
	case "apps/Deployment":
		w := &appsv1.Deployment{}
		return source{ref.Kind, ref.Name, w, &w.Spec.Template, &w.Spec.Replicas}, nil
	case "apps/ReplicaSet":
		w := &appsv1.ReplicaSet{}
		return source{ref.Kind, ref.Name, w, &w.Spec.Template, &w.Spec.Replicas}, nil
	case "apps/StatefulSet":
		w := &appsv1.StatefulSet{}
		return source{ref.Kind, ref.Name, w, &w.Spec.Template, &w.Spec.Replicas}, nil
	case "batch/Job":
		w := &batchv1.Job{}
		return source{ref.Kind, ref.Name, w, &w.Spec.Template, &w.Spec.Parallelism}, nil
	default:
		return source{}, newInvalidBuffer(agentv1alpha1.ReasonInvalid,
			"spec.scalableRef names kind %q of group %q, strategy %s serves Deployment, ReplicaSet and StatefulSet of group apps, and Job of group batch: set spec.podTemplateRef and spec.replicas instead",
			ref.Kind, ref.APIGroup, autoscaling.Strategy)
	}
}
