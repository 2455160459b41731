package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// wholeCPU and wholeMemory are the capacity of every cluster: more than all reservations of a study together.
// cpuPrice and memoryPrice are its prices.
const (
	wholeCPU, wholeMemory = "1000000", "1000Ti"
	cpuPrice, memoryPrice = "0.042", "0.0051"
)

// advertisementOf returns an advertisement of a cluster. The requests of the cluster's own pods change with the
// sequence number, but so little that the broker writes no record.
func advertisementOf(id string, sequence int64) *v1.Advertisement {
	whole := v1.Amounts{"cpu": wholeCPU, "memory": wholeMemory}
	adv := &v1.Advertisement{
		ClusterID: id, ClusterName: id, Epoch: 1, Sequence: sequence, Timestamp: time.Now(),
		EndpointURL: "https://" + id + ".example:6443", Topology: v1.Topology{Region: "eu-west", Zone: "a"},
		Capacity: whole, Allocatable: whole,
		Allocated: v1.Amounts{"cpu": fmt.Sprint(1000 + sequence%100), "memory": "1Ti"},
		Cost:      v1.Cost{CPUCost: cpuPrice, MemoryCost: memoryPrice, Currency: "EUR"},
	}
	for _, cores := range []string{"4", "16", "48", "96"} {
		adv.NodeShapes = append(adv.NodeShapes, v1.NodeShape{Count: 5, Free: v1.Amounts{"cpu": cores, "memory": cores + "Gi"}})
	}
	return adv
}

// manifestOf returns a ClusterAdvertisement with the same offer. A cluster without an agent does not acknowledge
// reservations.
func manifestOf(id string) *brokerv1alpha1.ClusterAdvertisement {
	obj := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id}}
	obj.Spec.ClusterID = id
	obj.Spec.EndpointURL = "https://" + id + ".example:6443"
	obj.Spec.Resources.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(wholeCPU), corev1.ResourceMemory: resource.MustParse(wholeMemory),
	}
	obj.Spec.Cost = &brokerv1alpha1.Cost{CPUCost: cpuPrice, MemoryCost: memoryPrice, Currency: "EUR"}
	return obj
}

func oneCPU() *v1.ReservationRequest {
	return &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}}
}

// lend offers the capacity of a number of clusters without agents, and waits until the broker shows them as active.
func (s *site) lend(ctx context.Context, clusters int) error {
	for i := range clusters {
		if err := s.Create(ctx, manifestOf(clusterID(i))); err != nil {
			return err
		}
	}
	return awaitCondition(ctx, waitTimeout, func(ctx context.Context) (bool, error) {
		var offered brokerv1alpha1.ClusterAdvertisementList
		err := s.List(ctx, &offered, client.InNamespace(namespace))
		active := 0
		for i := range offered.Items {
			if offered.Items[i].Status.Active {
				active++
			}
		}
		return active >= clusters, err
	})
}

// sendCommand sends a command to the control server of an answerer process.
func (r *server) sendCommand(ctx context.Context, command string, n int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/%s?n=%d", r.control, command, n), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // the body was read or is not needed, so an error does not matter
	if response.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // a partial message suffices
		return fmt.Errorf("%s %d: %s: %s", command, n, response.Status, why)
	}
	return nil
}
