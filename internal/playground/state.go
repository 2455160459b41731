package playground

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// format is incremented when state of older versions can no longer be booted.
const format = 2

// state is the folder of a playground, locked by this process.
type state struct {
	dir  string
	lock *os.File
}

func lockOf(dir string) string     { return filepath.Join(dir, "lock") }
func clustersOf(dir string) string { return filepath.Join(dir, "clusters") }

// openState locks the folder until close, and writes the process ID into it.
func openState(dir string) (*state, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := process.Hold(lockOf(dir))
	if errors.Is(err, process.ErrInUse) {
		return nil, fmt.Errorf("a playground runs in %q already: use it, or end it with \"playground down\": %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(lock.Truncate(0), writeAt(lock, strconv.Itoa(os.Getpid()))); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &state{dir: dir, lock: lock}, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

func (s *state) close() error {
	if err := s.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func (s *state) clusterDir(name string) string { return filepath.Join(clustersOf(s.dir), name) }

// boot runs start, on kept state if it is complete and of the same setup, otherwise on an empty folder. If kept state
// fails to boot because it is damaged, boot deletes it and tries again.
func (s *state) boot(ctx context.Context, setup string, report progress.Reporter, start func() (*Playground, error)) (*Playground, error) {
	content, err := os.ReadFile(s.marker())
	kept := err == nil && string(content) == setup
	if !kept {
		if err := s.wipe(); err != nil {
			return nil, err
		}
	}
	p, err := start()
	if err != nil && kept && isDamaged(ctx, err) {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		report.Begin("kept state does not boot and is replaced: " + reason)()
		kept = false
		if err := s.wipe(); err != nil {
			return nil, err
		}
		p, err = start()
	}
	if err != nil || kept {
		return p, err
	}
	if err := os.WriteFile(s.marker(), []byte(setup), 0o644); err != nil {
		return nil, errors.Join(err, p.stopClusters())
	}
	return p, nil
}

// marker returns the file that marks a successful first boot.
func (s *state) marker() string { return filepath.Join(s.dir, "complete") }

// isDamaged reports whether new state could help. It does not help against an interrupt, a slow machine, or a foreign
// program on a remembered port.
func isDamaged(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, controlplane.ErrPortTaken)
}

// wipe deletes the clusters. It deletes the marker first: an interrupted wipe must not leave state that looks
// complete.
func (s *state) wipe() error {
	if err := os.Remove(s.marker()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.reap(); err != nil {
		return err
	}
	return os.RemoveAll(clustersOf(s.dir))
}

// reap kills the processes that a crashed playground left.
func (s *state) reap() error {
	dirs, err := filepath.Glob(filepath.Join(clustersOf(s.dir), "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		processes, err := process.NewSupervisor(dir)
		if err != nil {
			return err
		}
		if err := processes.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// setupDigest returns a digest of what a first boot leaves in the clusters: the versions, the clusters' layout and
// the format of the state.
func setupDigest(tools *toolchain.Toolchain, layouts []layout) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, format)
	for _, tool := range []toolchain.Tool{toolchain.APIServer, toolchain.LiqoWebhook, toolchain.KWOK} {
		pins, err := tools.Pins(tool)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, pins)
	}
	if err := json.NewEncoder(h).Encode(layouts); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
