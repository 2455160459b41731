package progress

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"
)

func TestPrinterCountsStepsAndTime(t *testing.T) {
	now := testclock.NewFakeClock(time.Unix(0, 0))
	var out bytes.Buffer
	p := NewPrinter(&out, false, now)

	p.Plan(2)
	slow := p.Begin("build kube-apiserver")
	now.Step(time.Second)
	quick := p.Begin("build etcd")
	now.Step(1500 * time.Millisecond)
	quick()
	quick()
	now.Step(15 * time.Second)
	p.remind()
	slow()

	want := "[1/2    2.5s] build etcd (1.5s)\n" +
		"[1/2   17.5s] still: build kube-apiserver (18s)\n" +
		"[2/2   17.5s] build kube-apiserver (17.5s)\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestPrinterRewritesTheLastLineOfATerminal(t *testing.T) {
	now := testclock.NewFakeClock(time.Unix(0, 0))
	var out bytes.Buffer
	p := NewPrinter(&out, true, now)

	p.Plan(1)
	p.Begin("rome: API server")()

	want := "\r\x1b[K[0/1    0.0s] rome: API server ..." +
		"\r\x1b[K[1/1    0.0s] rome: API server (0.0s)\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
