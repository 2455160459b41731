// Command bench measures what the broker promises, on a real etcd that waits for its
// disk, a real API server and real certificates, and prints one row a figure.
//
//   - Where a figure is a ratio, both sides run in turns on the same control plane
//     (ABBA), and the median over the rounds counts: a machine that has other things
//     to do slows both down. CPU is what /proc says of all processes that took part,
//     the clients' among them.
//   - The answer path is measured without projection: a process of its own has the
//     book and the REST server of the broker, and no controllers (answerer.go).
//     Delivery, failover, advertisements and projection are those of the real broker.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// settings say how much is done for a figure.
type settings struct {
	// slice is how long one side of a comparison runs at a time, and rounds how often
	// each runs twice.
	slice  time.Duration
	rounds int
	// clusters and reservations are the size of a large fleet.
	clusters, reservations int
	// interval is between two advertisements of a cluster of that fleet.
	interval time.Duration
	// lenders are offers that never run out, where the size of the fleet does not matter.
	lenders int
	// grants are followed to their provider, failovers are made, backlog is granted at
	// once to be shown.
	grants, failovers, backlog int
	// starts of a broker on the large fleet, and as many lists of as many objects.
	starts int
	// peerings are made and undone by either side, twice a round.
	peerings int
	// pods and nodes are those of a large cluster, podEvents happen in a second of window.
	pods, nodes, podEvents int
	window                 time.Duration
}

var full = settings{
	slice: time.Second, rounds: 5, clusters: 10_000, reservations: 100_000, interval: 30 * time.Second,
	lenders: 100, grants: 500, failovers: 5, backlog: 10_000, starts: 3, peerings: 3,
	pods: 150_000, nodes: 5_000, podEvents: 50, window: 30 * time.Second,
}

// study measures some figures that belong together.
type study struct {
	name string
	run  func(ctx context.Context, s settings, t *table) error
}

var studies = []study{
	{"decision", decisions},
	{"answers", answers},
	{"advertisements", advertisements},
	{"delivery", delivery},
	{"projection", projection},
	{"failover", failover},
	{"hostile", hostile},
	{"scale", scale},
	{"agent", agent},
	{"peering", peering},
}

// roles are what this program is where a study starts it with their name.
var roles = map[string]func(ctx context.Context, args []string) error{
	answererCommand:   answerer,
	accountantCommand: accountant,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && roles[args[0]] != nil {
		return roles[args[0]](ctx, args[1:])
	}
	s := full
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.DurationVar(&s.slice, "slice", s.slice, "how long one side of a comparison runs at a time")
	flags.IntVar(&s.rounds, "rounds", s.rounds, "rounds of each comparison")
	flags.IntVar(&s.clusters, "clusters", s.clusters, "clusters of a large fleet")
	flags.IntVar(&s.reservations, "reservations", s.reservations, "reservations of a large fleet")
	flags.IntVar(&s.backlog, "backlog", s.backlog, "reservations that wait to be shown")
	flags.IntVar(&s.peerings, "peerings", s.peerings, "peerings made and undone by either side, twice a round")
	flags.IntVar(&s.pods, "pods", s.pods, "pods of a large cluster")
	flags.IntVar(&s.nodes, "nodes", s.nodes, "nodes of a large cluster")
	flags.DurationVar(&s.window, "window", s.window, "how long the agent of a large cluster is looked at")
	only := flags.String("run", "", "measure these studies alone, a regular expression; of "+strings.Join(names(), ", "))
	page := flags.String("page", "", "write the table into this page too, in place of the one that is there")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if *page != "" && *only != "" {
		return errors.New("-page takes a whole table: leave out -run")
	}
	var table strings.Builder
	err = measure(ctx, s, chosen, io.MultiWriter(os.Stdout, &table), os.Stderr)
	if err = errors.Join(err, removeBinary()); err != nil || *page == "" {
		return err
	}
	return keep(*page, table.String())
}

func names() []string {
	var out []string
	for _, s := range studies {
		out = append(out, s.name)
	}
	return out
}

// measure prints the table to out and what is being done to log.
func measure(ctx context.Context, s settings, chosen *regexp.Regexp, out, log io.Writer) error {
	began := time.Now()
	fmt.Fprintf(out, "Commit %s, %d cores (%s), load average %s when it began.\n\n", commit(ctx), runtime.NumCPU(), processor(), loadAverage())
	t := newTable(out)
	for _, study := range studies {
		if !chosen.MatchString(study.name) {
			continue
		}
		fmt.Fprintf(log, "measuring: %s (load average %s)\n", study.name, loadAverage())
		if err := study.run(ctx, s, t); err != nil {
			return fmt.Errorf("%s: %w", study.name, err)
		}
	}
	fmt.Fprintf(out, "\nTook %s; load average %s at the end.\n", time.Since(began).Round(time.Second), loadAverage())
	return nil
}
