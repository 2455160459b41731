package controlplane

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestPortBelongsToOneControlPlane(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports.json")
	first, err := openPorts(file)
	runtest.Check(t, err)
	port := first.named["kube-apiserver"]

	// No program listens on the port yet, but it is claimed.
	if _, ok := claimFree(port); ok {
		t.Errorf("port %d is claimed twice", port)
	}
	if _, err := openPorts(file); !errors.Is(err, ErrPortTaken) {
		t.Errorf("a second control plane with the same ports: got %v, want %v", err, ErrPortTaken)
	}

	first.release()
	second, err := openPorts(file)
	if err != nil {
		t.Fatal("once it has ended: ", err)
	}
	if got := second.named["kube-apiserver"]; got != port {
		t.Errorf("the port is %d, was %d", got, port)
	}
	second.release()
}

func TestErrorNamesAPortTakenByAnotherProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports.json")
	p, err := openPorts(file)
	runtest.Check(t, err)
	p.release()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.named["kube-apiserver"])))
	runtest.Check(t, err)
	defer listener.Close() //nolint:errcheck // the test is over, so an error does not matter
	if _, err := openPorts(file); !errors.Is(err, ErrPortTaken) {
		t.Errorf("got %v, want %v", err, ErrPortTaken)
	}
	// A failed start leaves no claims behind.
	runtest.Check(t, listener.Close())
	again, err := openPorts(file)
	runtest.Check(t, err)
	again.release()
}
