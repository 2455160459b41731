package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// firstPort and lastPort limit the ports that are allocated. They are below the range that kernels use for outgoing
// connections, so that no such connection takes a remembered port by chance.
const firstPort, lastPort = 20000, 32000

// ErrPortTaken means that another program already listens on a remembered port.
var ErrPortTaken = errors.New("taken by another program")

// ports remembers one loopback port for each name, and claims all these ports.
type ports struct {
	file string

	mu     sync.Mutex // guards the fields below
	named  map[string]int
	claims []io.Closer
}

// openPorts loads and claims the remembered ports, and makes sure that the API server has one. It returns ErrPortTaken
// if another program uses one of them.
func openPorts(file string) (*ports, error) {
	p := &ports{file: file, named: map[string]int{}}
	content, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(content, &p.named); err != nil {
			return nil, fmt.Errorf("remembered ports %q: %w", file, err)
		}
	}
	for name, port := range p.named {
		claim, ok := claimFree(port)
		if !ok {
			p.release()
			return nil, fmt.Errorf("port %d (%s) that %q remembers is %w: end that, or remove the state", port, name, file, ErrPortTaken)
		}
		p.claims = append(p.claims, claim)
	}
	_, err = p.allocate("kube-apiserver")
	return p, err
}

// release releases the claims. It is called after the programs that use the ports have ended.
func (p *ports) release() {
	if p == nil {
		return // an earlier step of the boot failed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, claim := range p.claims {
		_ = claim.Close() // it has no file
	}
	p.claims = nil
}

// of returns the port with a name. It returns 0 if there is none.
func (p *ports) of(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named[name]
}

// allocate returns the port with a name. For a new name it chooses a free port.
func (p *ports) allocate(name string) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if port, ok := p.named[name]; ok {
		return port, nil
	}
	port, claim, err := freePort()
	if err != nil {
		return 0, fmt.Errorf("port %q: %w", name, err)
	}
	p.named[name] = port
	p.claims = append(p.claims, claim)
	return port, p.save()
}

// FreePort returns a loopback port on which nothing listens and which no control plane has claimed. It does not claim
// the port, so the caller must listen on it at once.
func FreePort() (int, error) {
	port, claim, err := freePort()
	if err != nil {
		return 0, err
	}
	return port, claim.Close()
}

func freePort() (int, io.Closer, error) {
	const attempts = 1000
	for range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if claim, ok := claimFree(port); ok {
			return port, claim, nil
		}
	}
	return 0, nil, fmt.Errorf("no free loopback port between %d and %d", firstPort, lastPort)
}

// claimFree claims a port on which nothing listens. It returns false if the port is taken. Until the port's program
// listens, the claim keeps other control planes from taking the port, also those of other processes. The claim is an
// abstract Unix socket: it exists in the same network namespace as the port, and ends with the process.
func claimFree(port int) (io.Closer, bool) {
	//nolint:noctx // it answers at once
	claim, err := net.Listen("unix", fmt.Sprintf("@liqo-resource-broker/port/%d", port))
	if err != nil {
		return nil, false
	}
	//nolint:noctx // it answers at once
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		err = listener.Close()
	}
	if err != nil {
		_ = claim.Close() // it has no file
		return nil, false
	}
	return claim, true
}

// save replaces the file atomically, because a partly written file would lose the ports.
func (p *ports) save() error {
	content, err := json.MarshalIndent(p.named, "", "  ")
	if err != nil {
		return err
	}
	fresh := filepath.Join(filepath.Dir(p.file), ".ports.json")
	if err := os.WriteFile(fresh, content, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, p.file)
}
