package controlplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Ports come from below the range that kernels hand out to outgoing
// connections, so that nothing takes a remembered one by chance.
const firstPort, lastPort = 20000, 32000

// ErrPortTaken tells that another program listens on a remembered port.
var ErrPortTaken = errors.New("taken by another program")

// ports remembers which loopback port has which use.
type ports struct {
	file string

	mu    sync.Mutex // guards the following
	named map[string]int
}

// openPorts loads what was remembered and makes sure of the API server's port.
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
		if !free(port) {
			return nil, fmt.Errorf("port %d (%s) that %q remembers is %w: end that, or remove the state", port, name, file, ErrPortTaken)
		}
	}
	_, err = p.allocate("kube-apiserver")
	return p, err
}

// of is the port remembered under a name, 0 if there is none.
func (p *ports) of(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named[name]
}

// allocate picks a free port once and returns it ever after.
func (p *ports) allocate(name string) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if port, ok := p.named[name]; ok {
		return port, nil
	}
	port, err := FreePort(slices.Collect(maps.Values(p.named))...)
	if err != nil {
		return 0, fmt.Errorf("port %q: %w", name, err)
	}
	p.named[name] = port
	return port, p.save()
}

// FreePort picks a loopback port that nothing listens on now, none of those
// given. Nothing remembers it.
func FreePort(except ...int) (int, error) {
	const attempts = 1000
	for range attempts {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !slices.Contains(except, port) && free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free loopback port between %d and %d", firstPort, lastPort)
}

func free(port int) bool {
	//nolint:noctx // it answers at once
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// save replaces the file as a whole: one cut off halfway would lose the addresses.
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
