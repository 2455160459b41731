package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

const (
	// shownClusters and shownReservations are the size of the fleet that status shows, drained the number of
	// reservations that a planned drain moves.
	shownClusters, shownReservations, drained = 1_000, 10_000, 1_000
	// pluginRuns is how many times each command runs.
	pluginRuns = 5
)

// pluginStatus measures kubectl broker status in a broker's cluster whose reservations need no attention.
var pluginStatus = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	copies, err := at.samples(ctx)
	if err != nil {
		return err
	}
	if err := at.showActive(ctx, copies); err != nil {
		return err
	}
	s.clusters, s.reservations = min(s.clusters, shownClusters), min(s.reservations, shownReservations)
	if err := copies.write(ctx, s); err != nil {
		return err
	}
	// The API server must first read the objects that were written directly to etcd.
	err = awaitCondition(ctx, waitTimeout, func(ctx context.Context) (bool, error) {
		clusters, reservations, err := at.listAll(ctx)
		return clusters >= s.clusters && reservations >= s.reservations, err
	})
	if err != nil {
		return err
	}
	took, cpu, err := at.runPlugin(ctx, fmt.Sprintf("%d Active", s.reservations+1), "status") // one is the sample
	if err != nil {
		return err
	}
	t.row("kubectl broker status, median", took.Seconds(), atMost(1, 0, "s"), "%d clusters, %d reservations; the whole program, %d runs, with %s of CPU", s.clusters, s.reservations, pluginRuns, cpu.Round(time.Millisecond))
	return nil
})

// showActive makes the sample of a reservation one that needs no attention.
func (s *site) showActive(ctx context.Context, copies *copies) error {
	r := &brokerv1alpha1.Reservation{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: copies.reservation.name}, r); err != nil {
		return err
	}
	r.Status.Phase, r.Status.Message = brokerv1alpha1.ReservationActive, fmt.Sprintf("virtual node %s-1 on %s is Ready", r.Name, r.Status.TargetClusterID)
	if err := s.Status().Update(ctx, r); err != nil {
		return err
	}
	var err error
	copies.reservation, err = copies.read(ctx, "reservations", r.Name)
	return err
}

// pluginPlan measures kubectl broker plan drain of a cluster whose reservations all move to another one.
var pluginPlan = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	server, err := at.startAnswerer(ctx)
	if err != nil {
		return err
	}
	s.reservations = min(s.reservations, drained)
	for _, step := range []struct {
		command string
		n       int
	}{{"advertise", 1}, {"fill", s.reservations}, {"advertise", 2}} {
		if err := server.sendCommand(ctx, step.command, step.n); err != nil {
			return err
		}
	}
	took, cpu, err := at.runPlugin(ctx, clusterID(1), "plan", "drain", clusterID(0))
	if err != nil {
		return err
	}
	t.row("kubectl broker plan drain, median", milliseconds(took), atMost(100, 0, "ms"), "%d reservations move; the whole program, %d runs, with %s of CPU", s.reservations, pluginRuns, cpu.Round(time.Millisecond))
	return nil
})

// runPlugin runs a command of kubectl broker several times, and returns the medians of its time and of its CPU time. It
// returns an error if the output does not contain want. The exit code does not count: status has another one if
// something needs attention.
func (s *site) runPlugin(ctx context.Context, want string, args ...string) (wall, cpu time.Duration, err error) {
	path, err := pluginBinary()
	if err != nil {
		return 0, 0, err
	}
	var took, used []time.Duration
	for range pluginRuns {
		cmd, began := exec.CommandContext(ctx, path, append(args, "--kubeconfig="+s.plane.Kubeconfig())...), time.Now()
		out, err := cmd.CombinedOutput()
		took = append(took, time.Since(began))
		if !strings.Contains(string(out), want) {
			return 0, 0, errors.Join(fmt.Errorf("kubectl broker %v prints no %q:\n%.2000s", args, want, out), err)
		}
		used = append(used, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	return quantile(took, .5), quantile(used, .5), nil
}
