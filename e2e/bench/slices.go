package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// work is one operation of one client.
type work func(ctx context.Context, client int) error

// slice is the result of some work without interruption: the elapsed time, the CPU time, and the duration of
// each operation.
type slice struct {
	wall, cpu time.Duration
	took      []time.Duration
}

func (s slice) rate() float64        { return float64(len(s.took)) / s.wall.Seconds() }
func (s slice) cpuEach() float64     { return float64(s.cpu.Microseconds()) / float64(max(len(s.took), 1)) }
func (s slice) at(q float64) float64 { return milliseconds(quantile(s.took, q)) }

func (s slice) cores() float64 { return s.cpu.Seconds() / s.wall.Seconds() }

// mergeSlices adds two slices of the same side.
func mergeSlices(a, b slice) slice {
	return slice{a.wall + b.wall, a.cpu + b.cpu, slices.Concat(a.took, b.took)}
}

// round holds the results of both sides in one round of a comparison.
type round struct{ ours, bare slice }

// finely returns settings with slices of a fifth of the length and ten times as many rounds. With a single
// client, the two sides must be measured within the same second. Otherwise, changes of the load on the machine
// would hide their difference.
func (s settings) finely() settings {
	s.slice, s.rounds = s.slice/5, 10*s.rounds
	return s
}

// compare measures both sides alternately in the order ours, bare, bare, ours. Before that, each side runs once
// to open its connections, which is not counted.
func compare(ctx context.Context, s settings, clients int, pids []int, ours, bare work) ([]round, error) {
	run := func(w work) (slice, error) { return runSlice(ctx, s.slice, clients, pids, w) }
	for _, w := range []work{ours, bare} {
		if _, err := run(w); err != nil {
			return nil, err
		}
	}
	var rounds []round
	for range s.rounds {
		var turns [4]slice
		for i, w := range []work{ours, bare, bare, ours} {
			var err error
			if turns[i], err = run(w); err != nil {
				return nil, err
			}
		}
		rounds = append(rounds, round{mergeSlices(turns[0], turns[3]), mergeSlices(turns[1], turns[2])})
	}
	return rounds, nil
}

func runSlice(ctx context.Context, length time.Duration, clients int, pids []int, do work) (slice, error) {
	before, err := cpuOf(pids...)
	if err != nil {
		return slice{}, err
	}
	var (
		working sync.WaitGroup
		took    = make([][]time.Duration, clients)
		failed  = make([]error, clients)
		began   = time.Now()
	)
	for client := range clients {
		working.Go(func() {
			for time.Since(began) < length && failed[client] == nil {
				asked := time.Now()
				failed[client] = do(ctx, client)
				took[client] = append(took[client], time.Since(asked))
			}
		})
	}
	working.Wait()
	after, err := cpuOf(pids...)
	return slice{time.Since(began), after - before, slices.Concat(took...)}, errors.Join(append(failed, err)...)
}

// medianOf returns the median of a figure over all rounds.
func medianOf(rounds []round, figure func(round) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = figure(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func quantile(took []time.Duration, q float64) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// tick is the unit of CPU times in /proc/PID/stat. It is the same on every Linux that Go supports.
const tick = 10 * time.Millisecond

// cpuOf returns the CPU time that processes have used so far, in user mode and in kernel mode.
func cpuOf(pids ...int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("CPU of process %d: %w", pid, err)
		}
		// The name in parentheses may contain any characters. utime and stime are the 12th and 13th field after the
		// name.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, field := range fields[11:13] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("CPU of process %d: %w", pid, err)
			}
			sum += time.Duration(ticks) * tick
		}
	}
	return sum, nil
}

// cpuDuring measures the CPU time that processes use while do runs.
func cpuDuring(pids []int, do func() error) (slice, error) {
	began := time.Now()
	before, err := cpuOf(pids...)
	if err != nil {
		return slice{}, err
	}
	if err := do(); err != nil {
		return slice{}, err
	}
	after, err := cpuOf(pids...)
	return slice{wall: time.Since(began), cpu: after - before}, err
}
