package playground

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const holderVariable = "PLAYGROUND_TEST_HOLDER_OF"

// TestMain lets the test binary also run as a process that holds a playground.
func TestMain(m *testing.M) {
	dir := os.Getenv(holderVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := openState(dir)
	if err != nil {
		panic(err)
	}
	println("up")
	<-ctx.Done()
	if err := s.close(); err != nil {
		panic(err)
	}
}

func TestDownEndsTheProcessThatRunsThePlayground(t *testing.T) {
	dir := t.TempDir()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holderVariable+"="+dir)
	stderr, err := holder.StderrPipe()
	runtest.Check(t, err)
	runtest.Check(t, holder.Start())
	if _, err := bufio.NewReader(stderr).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	status, err := Inspect(t.Context(), dir)
	runtest.Check(t, err)
	if status.PID != holder.Process.Pid {
		t.Errorf("the playground runs as process %d, want %d", status.PID, holder.Process.Pid)
	}

	for _, want := range []bool{true, false} {
		ran, err := Down(t.Context(), dir)
		runtest.Check(t, err)
		if ran != want {
			t.Errorf("a playground ran: %v, want %v", ran, want)
		}
	}
	if err := holder.Wait(); err != nil {
		t.Errorf("the process that ran the playground: %v", err)
	}
}
