package kueue

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workload is what the story reads of a Workload, in which Kueue keeps the state of a job.
type workload struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Admission struct {
			PodSetAssignments []struct {
				Flavors map[string]string `json:"flavors"`
			} `json:"podSetAssignments"`
		} `json:"admission"`
		AdmissionChecks []struct {
			State      string `json:"state"`
			Message    string `json:"message"`
			RetryCount int32  `json:"retryCount"`
		} `json:"admissionChecks"`
	} `json:"status"`
}

// listWorkloads returns the Workloads by the names of their jobs.
func (s *story) listWorkloads(ctx context.Context) (map[string]*workload, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "WorkloadList"})
	if err := s.rome().List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	out := map[string]*workload{}
	for i := range list.Items {
		w := &workload{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, w); err != nil {
			return nil, err
		}
		if owner := metav1.GetControllerOf(w); owner != nil {
			out[owner.Name] = w
		}
	}
	return out, nil
}

// tableRow returns the flavor of a Workload and the state of its admission check.
func (w *workload) tableRow(job string) []string {
	row := []string{job, "", "", ""}
	for _, set := range w.Status.Admission.PodSetAssignments {
		row[1] = set.Flavors["cpu"]
	}
	for _, check := range w.Status.AdmissionChecks {
		row[2], row[3] = fmt.Sprintf("%s, %d retries", check.State, check.RetryCount), check.Message
	}
	return row
}

// newJob returns a job of one pod, which runs until the story ends it.
func newJob(name string) *batchv1.Job {
	const stage, long = "pod-complete.stage.kwok.x-k8s.io/", "24h"
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"kueue.x-k8s.io/queue-name": "batch"}},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stage + "delay": long, stage + "jitter-delay": long}},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "main", Image: "registry.k8s.io/pause:3.10.1", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
			}}},
		}},
	}
}
