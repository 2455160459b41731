package term

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

func TestLastingFailureIsLoggedOnceAMinute(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	away, damaged := errors.New("API server does not answer"), &journal.CorruptError{Journal: "broker", Object: "broker-journal-7", Position: 431}
	start := time.Unix(0, 0)
	var tr Trouble
	for second := range 61 {
		tr.Report(log, away, start.Add(time.Duration(second)*time.Second), "no journal")
	}
	tr.Report(log, damaged, start.Add(61*time.Second), "no journal")
	tr.Report(log, damaged, start.Add(62*time.Second), "no journal")
	tr.Clear()
	tr.Report(log, damaged, start.Add(63*time.Second), "no journal")

	want := []string{`"level"=0 "msg"="WARNING: no journal" "cause"="API server does not answer"`, "WARNING", `"msg"="no journal" "error"=`, `"msg"="no journal" "error"=`}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(lines), len(want), lines)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("line %d is %s, want %s", i, lines[i], want[i])
		}
	}
}
