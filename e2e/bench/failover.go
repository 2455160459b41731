package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

const (
	// leaseName is the name of the lease with which the brokers elect a leader.
	leaseName = "liqo-resource-broker"
	// held is the number of reservations in the broker's book when the leader is killed.
	held = 2000
)

// failover kills the leader, and measures the time from the moment when another broker takes the lease until it
// answers.
var failover = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	var replicas []*server
	for i := range 2 {
		r, err := at.startBroker(ctx, fmt.Sprintf("broker-%d", i), true)
		if err != nil {
			return err
		}
		replicas = append(replicas, r)
	}
	if err := at.lend(ctx, s.lenders); err != nil {
		return err
	}
	agents, err := at.connectAll((held+burst-1)/burst, "client", replicas[0].url)
	if err != nil {
		return err
	}
	if _, _, err := requestAll(ctx, agents, min(held, s.backlog)); err != nil {
		return err
	}
	var gaps, detections []time.Duration
	for range s.failovers {
		leader, err := at.leader(ctx, replicas)
		if err != nil {
			return err
		}
		other := replicas[1-slices.Index(replicas, leader)]
		killed := time.Now()
		leader.Kill()
		answered, err := at.knock(ctx, other.url, "knock")
		if err != nil {
			return err
		}
		var lease coordinationv1.Lease
		if err := at.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, &lease); err != nil {
			return err
		}
		detected := lease.Spec.AcquireTime.Time
		gaps, detections = append(gaps, answered.Sub(detected)), append(detections, detected.Sub(killed))
		if err := leader.Start(); err != nil {
			return err
		}
		ready, cancel := context.WithTimeout(ctx, waitTimeout)
		err = leader.Await(ready, process.Answers(leader.control))
		cancel()
		if err != nil {
			return err
		}
	}
	t.row("failover beyond detection, median", milliseconds(quantile(gaps, .5)), atMost(150, 100, "ms"),
		"%d leaders killed, %d reservations; longest %.0f ms; the lease was seen to be over within %.1f s",
		s.failovers, min(held, s.backlog), milliseconds(quantile(gaps, 1)), quantile(detections, 1).Seconds())
	return nil
})

// leader waits until one of the brokers holds the lease, and returns this broker.
func (s *site) leader(ctx context.Context, replicas []*server) (leader *server, err error) {
	err = awaitCondition(ctx, waitTimeout, func(ctx context.Context) (bool, error) {
		var lease coordinationv1.Lease
		if err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaseName}, &lease); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		for _, r := range replicas {
			if strings.HasSuffix(ptr.Deref(lease.Spec.HolderIdentity, ""), "_"+r.direct) && r.Alive() {
				leader = r
			}
		}
		return leader != nil, nil
	})
	return leader, err
}
