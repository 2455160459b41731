package release

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// answering accepts connections and answers each with its name and the received text.
func answering(t *testing.T, name string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close() //nolint:errcheck // the test reads to the end
				sent, _ := io.ReadAll(conn)
				fmt.Fprintf(conn, "%s: %s", name, sent)
			}()
		}
	}()
	return listener.Addr().String()
}

func ask(t *testing.T, address string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	runtest.Check(t, err)
	defer conn.Close() //nolint:errcheck // the body was read to its end, so an error does not matter
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

func TestServiceForwardsConnectionsToItsPodsInTurn(t *testing.T) {
	port, err := controlplane.FreePort()
	runtest.Check(t, err)
	at := fmt.Sprintf("127.0.0.1:%d", port)
	s := &service{}
	runtest.Check(t, s.serve(t.Context(), at))
	one, two := answering(t, "one"), answering(t, "two")
	s.add(one)
	s.add(two)
	s.add(two)
	got := map[string]int{}
	for range 4 {
		got[ask(t, at)]++
	}
	if got["one: hello"] != 2 || got["two: hello"] != 2 {
		t.Errorf("with two pods: got %v", got)
	}
	s.remove(one)
	for range 3 {
		if answer := ask(t, at); answer != "two: hello" {
			t.Errorf("with one pod: got %q", answer)
		}
	}
	s.add(fmt.Sprintf("127.0.0.1:%d", port+1)) // nothing listens there
	for range 4 {
		if answer := ask(t, at); answer != "two: hello" {
			t.Errorf("with a pod that does not accept: got %q", answer)
		}
	}
}
