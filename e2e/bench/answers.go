package main

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

const manyClients = 32

// answers compares durable reservations over mTLS with creating Reservations of the same content in the API server.
var answers = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	broker, err := at.startAnswerer(ctx)
	if err != nil {
		return err
	}
	if err := broker.sendCommand(ctx, "lend", s.lenders); err != nil {
		return err
	}
	clusters, err := at.connectAll(manyClients, "client", broker.url)
	if err != nil {
		return err
	}
	var asked atomic.Int64
	reserve := func(ctx context.Context, client int) error {
		_, err := clusters[client].RequestReservation(ctx, fmt.Sprintf("request-%d", asked.Add(1)), oneCPU())
		return err
	}
	create := func(ctx context.Context, client int) error {
		return at.Create(ctx, bareReservation(client, asked.Add(1)))
	}
	pids := at.pids(broker)
	many, err := compare(ctx, s, manyClients, pids, reserve, create)
	if err != nil {
		return err
	}
	one, err := compare(ctx, s.finely(), 1, pids, reserve, create)
	if err != nil {
		return err
	}
	t.row(fmt.Sprintf("durable reservations over mTLS ÷ bare creates per second, %d clients", manyClients),
		medianOf(many, func(r round) float64 { return r.ours.rate() / r.bare.rate() }), atLeast(3, 6),
		"%.0f/s ÷ %.0f/s; p99 %.0f ms, %.0f ms",
		medianOf(many, func(r round) float64 { return r.ours.rate() }), medianOf(many, func(r round) float64 { return r.bare.rate() }),
		medianOf(many, func(r round) float64 { return r.ours.at(.99) }), medianOf(many, func(r round) float64 { return r.bare.at(.99) }))
	t.row("p50 of a durable reservation over mTLS ÷ p50 of a bare create, 1 client",
		medianOf(one, func(r round) float64 { return r.ours.at(.5) / r.bare.at(.5) }), atMost(1, .75, ""),
		"%.2f ms ÷ %.2f ms", medianOf(one, func(r round) float64 { return r.ours.at(.5) }), medianOf(one, func(r round) float64 { return r.bare.at(.5) }))
	t.row(fmt.Sprintf("CPU of a reservation ÷ CPU of a bare create, %d clients", manyClients),
		medianOf(many, func(r round) float64 { return r.ours.cpuEach() / r.bare.cpuEach() }), atMost(.3, .15, ""),
		"%.0f µs ÷ %.0f µs: etcd, API server, broker and clients",
		medianOf(many, func(r round) float64 { return r.ours.cpuEach() }), medianOf(many, func(r round) float64 { return r.bare.cpuEach() }))
	return nil
})

func bareReservation(client int, n int64) *brokerv1alpha1.Reservation {
	r := &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("bare-%d", n)}}
	r.Spec.RequesterID = fmt.Sprintf("client-%d", client)
	r.Spec.RequestedResources = brokerv1alpha1.RequestedResources{
		corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	return r
}
