package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestMain lets the test binary run as a process of a study.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		main()
		return
	}
	flag.Parse()
	code := m.Run()
	_ = removeBinary() // a folder of this run
	os.Exit(code)
}

// small has small values for all settings, so that the studies run quickly. The figures that they measure mean nothing.
var small = settings{
	slice: 50 * time.Millisecond, rounds: 1, clusters: 12, reservations: 40, interval: 2 * time.Second,
	lenders: 3, grants: 12, failovers: 1, backlog: 20, starts: 1,
	pods: 60, nodes: 4, podEvents: 50, window: 300 * time.Millisecond,
}

// TestStudiesPrintTheirFigures checks only that every figure is measured: the values depend on other load. The
// study of peerings uses the clusters of e2e/local and is tested there.
func TestStudiesPrintTheirFigures(t *testing.T) {
	figures := map[string]int{
		"decision": 1, "answers": 3, "advertisements": 2, "delivery": 1, "projection": 3, "failover": 1, "denial": 1, "scale": 3, "scrape": 2, "costs": 1, "status": 1, "plan": 1, "agent": 4, "hostile": 1,
	}
	for _, study := range studies {
		if study.name == "peering" {
			continue
		}
		t.Run(study.name, func(t *testing.T) {
			t.Parallel()
			var table bytes.Buffer
			runtest.Check(t, measure(t.Context(), small, regexp.MustCompile("^"+study.name+"$"), &table, t.Output()))
			if got := strings.Count(table.String(), "\n| ") - 1; got != figures[study.name] {
				t.Errorf("%d figures, want %d:\n%s", got, figures[study.name], table.String())
			}
		})
	}
}
