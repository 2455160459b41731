package release

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

// podOf returns a function that reads the pod spec of an object. It returns nil if the
// object is not a Pod or a Job.
func podOf(object manifest.Object) func(*corev1.PodSpec) error {
	switch object.GetKind() {
	case "Pod":
		return func(into *corev1.PodSpec) error {
			var pod corev1.Pod
			err := convert(object, &pod)
			*into = pod.Spec
			return err
		}
	case "Job":
		return func(into *corev1.PodSpec) error {
			var job batchv1.Job
			err := convert(object, &job)
			*into = job.Spec.Template.Spec
			return err
		}
	default:
		return nil
	}
}
