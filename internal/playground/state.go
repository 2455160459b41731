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

// format is incremented when playgrounds can no longer start with the state of older versions.
const format = 3

// state is the folder of a playground. This process has locked it.
type state struct {
	dir  string
	lock *os.File
}

func lockOf(dir string) string     { return filepath.Join(dir, "lock") }
func clustersOf(dir string) string { return filepath.Join(dir, "clusters") }

// openState locks the folder until close is called, and writes the process ID into the lock file.
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

// boot calls start to start the playground. It reuses kept state if that is complete and of the same setup; otherwise
// it first deletes the state. If the playground does not start with kept state because the state is damaged, boot
// deletes the state and tries again.
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

// marker returns the path of the file which says that the first boot has succeeded.
func (s *state) marker() string { return filepath.Join(s.dir, "complete") }

// isDamaged reports whether a start with new state may succeed. New state does not help if the user interrupted the
// start, the machine is slow, or another program uses a remembered port.
func isDamaged(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, controlplane.ErrPortTaken)
}

// wipe deletes the clusters. It deletes the marker first, so that after an interrupted wipe, the state does not look
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

// reap kills the processes that a crashed playground has left.
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

// setupDigest returns a digest of what the state must have been created with: the pinned versions of Kubernetes, Liqo
// and KWOK, the layouts of the clusters, and the format of the state.
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
