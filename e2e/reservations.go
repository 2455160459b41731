package e2e

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// AwaitReservation waits until a Reservation is in the given phase. It reads the Reservation into r.
func (e *Environment) AwaitReservation(ctx context.Context, r *brokerv1alpha1.Reservation, within time.Duration, phase brokerv1alpha1.ReservationPhase) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		if err := e.Broker.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil || r.Status.Phase == phase {
			return "", err
		}
		return fmt.Sprintf("Reservation %q to be %s, it is %s: %s", r.Name, phase, r.Status.Phase, r.Status.Message), nil
	})
}

// AwaitInstruction waits until a consumer has a ReservationInstruction that belongs to none of its
// ResourceRequests, and returns it.
func (e *Environment) AwaitInstruction(ctx context.Context, consumer string, within time.Duration) (*agentv1alpha1.ReservationInstruction, error) {
	var found *agentv1alpha1.ReservationInstruction
	err := Await(ctx, within, func(ctx context.Context) (string, error) {
		list := &agentv1alpha1.ReservationInstructionList{}
		if err := e.Member(consumer).List(ctx, list, client.InNamespace(e.InstructionNamespace)); err != nil {
			return "", err
		}
		for i := range list.Items {
			if list.Items[i].Spec.RequestRef == nil {
				found = &list.Items[i]
				return "", nil
			}
		}
		return "a ReservationInstruction in " + consumer, nil
	})
	return found, err
}
