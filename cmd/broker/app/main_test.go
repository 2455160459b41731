package app

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaries is a temporary folder of this package's tests.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "broker-tests-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(binaries); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// buildBroker builds the broker once for all tests, because linking it takes long on a busy machine.
var buildBroker = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "broker")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", path, "..").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the broker: %w\n%s", err, out)
	}
	return path, nil
})

// brokerBinary returns the path of a broker with the race detector.
func brokerBinary(t *testing.T) string {
	t.Helper()
	path, err := buildBroker()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
