package e2etest

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// chatter is of processes that start and stop, and stack traces.
var chatter = regexp.MustCompile(`^\S+\tINFO\t(Starting|Stopping|Shutdown|All workers|controller-runtime)|^\s|^sigs\.k8s\.io/`)

// logSizes returns how long each log is.
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

// logged returns what was added to a log since it had a size.
func logged(t *testing.T, log string, size int64) []byte {
	t.Helper()
	content, err := os.ReadFile(log)
	Check(t, err)
	if int64(len(content)) < size { // a new file was begun
		return content
	}
	return content[size:]
}

// showLogs prints the last lines that broker and agents logged, without those about
// processes that start and stop.
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

// checkLogs fails if broker or an agent crashed. They are started again, so that nothing
// else might tell.
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
