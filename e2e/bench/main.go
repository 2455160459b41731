// Command bench measures the broker's performance figures. It uses a real etcd that waits for its disk, a real API
// server and real certificates. It prints one row per figure.
//
//   - Where a figure is a ratio, both sides run alternately on the same control
//     plane (ABBA), and the median over the rounds counts. So other load on the
//     machine slows down both. CPU time is read from /proc for all processes that
//     took part, including the clients.
//   - The request path is measured without controllers: a separate process has the
//     book and the REST server of the broker (answerer.go). Delivery, failover,
//     advertisements and projection use the real broker.
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

// settings are the sizes and durations of all measurements.
type settings struct {
	// slice is how long one side of a comparison runs without interruption. rounds is the number of rounds. In each
	// round, each side runs twice.
	slice  time.Duration
	rounds int
	// clusters and reservations are the numbers of clusters and reservations in a large fleet.
	clusters, reservations int
	// interval is the time between two advertisements of a cluster in the large fleet.
	interval time.Duration
	// lenders is the number of clusters in studies whose result does not depend on it. Their capacity is never
	// exhausted.
	lenders int
	// grants is the number of grants in the study delivery. failovers is the number of killed leaders in the study
	// failover. backlog is the number of reservations that are granted at once in the study projection.
	grants, failovers, backlog int
	// starts is how many times the study scale starts the broker with the large fleet. The study lists the same number
	// of objects equally often, for comparison.
	starts int
	// peerings is half the number of peerings that each side makes in the study peering.
	peerings int
	// pods and nodes are the numbers of pods and nodes in a large cluster. podEvents is the number of pod events per
	// second. window is the duration of the measurement.
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
	{"decision", measureDecisions},
	{"answers", answers},
	{"advertisements", advertisements},
	{"delivery", delivery},
	{"projection", projection},
	{"failover", failover},
	{"denial", denial},
	{"hostile", hostile},
	{"scale", scale},
	{"scrape", scrape},
	{"costs", costs},
	{"status", pluginStatus},
	{"plan", pluginPlan},
	{"agent", agent},
	{"peering", peering},
}

// roles maps commands to functions. A study starts this program again with one of these commands.
var roles = map[string]func(ctx context.Context, args []string) error{
	answererCommand:   runAnswerer,
	accountantCommand: runAccountant,
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
	flags.IntVar(&s.backlog, "backlog", s.backlog, "reservations granted at once in the study of projection")
	flags.IntVar(&s.peerings, "peerings", s.peerings, "peerings that each side makes, twice per round")
	flags.IntVar(&s.pods, "pods", s.pods, "pods of a large cluster")
	flags.IntVar(&s.nodes, "nodes", s.nodes, "nodes of a large cluster")
	flags.DurationVar(&s.window, "window", s.window, "how long the agent of a large cluster is measured")
	only := flags.String("run", "", "regular expression of the studies to run, among "+strings.Join(names(), ", "))
	page := flags.String("page", "", "also replace the table in this page")
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
	return writeTable(*page, table.String())
}

func names() []string {
	var out []string
	for _, s := range studies {
		out = append(out, s.name)
	}
	return out
}

// measure runs the chosen studies. It writes the table to out, and the progress to log.
func measure(ctx context.Context, s settings, chosen *regexp.Regexp, out, log io.Writer) error {
	began := time.Now()
	fmt.Fprintf(out, "Commit %s, %d cores (%s), load average %s when it began.\n\n", describeCommit(ctx), runtime.NumCPU(), processorModel(), loadAverage())
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
