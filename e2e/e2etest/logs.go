package e2etest

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// chatter matches log lines about starts and stops, and lines of stack traces.
var chatter = regexp.MustCompile(`^\S+\tINFO\t(Starting|Stopping|Shutdown|All workers|controller-runtime)|^\s|^sigs\.k8s\.io/`)

// logSizes returns the present size of each log file.
func logSizes(t *testing.T, logs []string) map[string]int64 {
	t.Helper()
	sizes := map[string]int64{}
	for _, log := range logs {
		info, err := os.Stat(log)
		Check(t, err)
		sizes[log] = info.Size()
	}
	return sizes
}

// logged returns the text that was added to a log file since it had the given size.
func logged(t *testing.T, log string, size int64) []byte {
	t.Helper()
	content, err := os.ReadFile(log)
	Check(t, err)
	if int64(len(content)) < size { // the log was rotated
		return content
	}
	return content[size:]
}

// showLogs prints the latest log lines of the broker and the agents. It leaves out lines about starts and stops.
func showLogs(t *testing.T, since map[string]int64) {
	t.Helper()
	const most, width = 60, 600
	for log, size := range since {
		var lines []string
		for line := range strings.Lines(string(logged(t, log, size))) {
			if !chatter.MatchString(line) {
				lines = append(lines, line[:min(len(line), width)])
			}
		}
		t.Logf("%s:\n%s", log, strings.Join(lines[max(0, len(lines)-most):], ""))
	}
}

// checkLogs fails the test if the broker or an agent has crashed. No other check would notice this, because
// crashed processes are restarted.
func checkLogs(t *testing.T, since map[string]int64) {
	t.Helper()
	for log, size := range since {
		content := logged(t, log, size)
		for _, crash := range []string{"DATA RACE", "panic:", "fatal error:"} {
			if at := bytes.Index(content, []byte(crash)); at >= 0 {
				t.Errorf("%s: %s", log, content[at:min(at+3000, len(content))])
			}
		}
	}
}
