// Package toolchain builds the third-party programs that the playground and the integration tests run. Their modules
// are pinned under hack/, and the binaries are cached.
//
// Each cached binary has a stamp, a digest of everything that determines it. A binary with an outdated stamp is
// rebuilt.
package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

// CacheVariable is the environment variable that moves the cache. By default the cache is in the user's cache folder,
// so that checkouts share it.
const CacheVariable = "LRB_CACHE"

// Toolchain finds and builds programs. Several processes may share a cache.
type Toolchain struct {
	root     string
	bin      string
	progress progress.Reporter
}

// New returns the toolchain of the checkout that contains the current directory.
func New(report progress.Reporter) (*Toolchain, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	cache, err := filepath.Abs(cacheDir(root))
	if err != nil {
		return nil, fmt.Errorf("folder for built programs: %w", err)
	}
	return &Toolchain{root: root, bin: filepath.Join(cache, "bin"), progress: report}, nil
}

// cacheDir returns the folder of the cache. For a user without a home it is in the checkout.
func cacheDir(root string) string {
	if dir := os.Getenv(CacheVariable); dir != "" {
		return dir
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "liqo-resource-broker")
	}
	return filepath.Join(root, ".cache")
}

// Root returns the folder of the checkout.
func (t *Toolchain) Root() string { return t.root }

// Path returns the path of a tool's binary. It exists once Ensure has returned.
func (t *Toolchain) Path(tool Tool) string { return filepath.Join(t.bin, tool.Name) }

// Ensure builds the tools that are missing or outdated. The first build compiles Kubernetes and takes minutes.
func (t *Toolchain) Ensure(ctx context.Context, tools ...Tool) error {
	var missing []Tool
	for _, tool := range tools {
		stamp, err := t.stamp(tool)
		if err != nil {
			return err
		}
		if !t.isFresh(tool, stamp) {
			missing = append(missing, tool)
		}
	}
	t.progress.Plan(len(missing))
	for _, tool := range missing {
		if err := t.build(ctx, tool); err != nil {
			return err
		}
	}
	return nil
}

// ModuleDir returns the folder with the sources of a module that hack/<in> pins.
func (t *Toolchain) ModuleDir(ctx context.Context, in, module string) (string, error) {
	list := func() (string, error) { return t.goCommand(ctx, in, "list", "-m", "-f", "{{.Dir}}", module) }
	dir, err := list()
	if err != nil || dir != "" {
		return dir, err
	}
	// The binaries may be cached while the sources are not.
	if _, err := t.goCommand(ctx, in, "mod", "download", module); err != nil {
		return "", err
	}
	return list()
}

// ModuleVersion returns the version of a module that hack/<in> pins.
func (t *Toolchain) ModuleVersion(ctx context.Context, in, module string) (string, error) {
	return t.goCommand(ctx, in, "list", "-m", "-f", "{{.Version}}", module)
}

// build compiles under a lock, so that only one of several processes builds.
func (t *Toolchain) build(ctx context.Context, tool Tool) (err error) {
	defer t.progress.Begin("build " + tool.Name)()
	if err := os.MkdirAll(t.bin, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, t.Path(tool)+".lock")
	if err != nil {
		return err
	}
	defer unlock()

	stamp, err := t.stamp(tool)
	if err != nil {
		return err
	}
	if t.isFresh(tool, stamp) {
		return nil
	}
	flags, err := t.linkerFlags(ctx, tool)
	if err != nil {
		return err
	}
	// A running program's file can be replaced but not overwritten.
	fresh := t.Path(tool) + ".new"
	args := []string{"build", "-trimpath", "-ldflags", flags, "-o", fresh}
	if tool.Patch != (Patch{}) {
		modfile, done, err := t.patchedModule(ctx, tool)
		if err != nil {
			return err
		}
		args = append(args, "-modfile", modfile)
		defer func() { err = errors.Join(err, done()) }()
	}
	if _, err := t.goCommand(ctx, tool.Module, append(args, tool.Package)...); err != nil {
		return err
	}
	if err := os.Rename(fresh, t.Path(tool)); err != nil {
		return err
	}
	return os.WriteFile(t.stampFile(tool), []byte(stamp), 0o644)
}

// linkerFlags returns the flags that make Kubernetes report its release. Clients rely on it; the default is
// v0.0.0-master.
func (t *Toolchain) linkerFlags(ctx context.Context, tool Tool) (string, error) {
	flags := "-s -w"
	if !tool.Stamped {
		return flags, nil
	}
	version, err := t.ModuleVersion(ctx, tool.Module, "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(numbers) != 3 {
		return "", fmt.Errorf("version %q of k8s.io/kubernetes in hack/%s/go.mod is not vMAJOR.MINOR.PATCH", version, tool.Module)
	}
	const component, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
	return fmt.Sprintf("%s -X %[2]s.gitVersion=%[3]s -X %[2]s.gitMajor=%[4]s -X %[2]s.gitMinor=%[5]s -X %[2]s.gitTreeState=clean -X %[6]s.gitVersion=%[3]s",
		flags, component, version, numbers[0], numbers[1], client), nil
}

func (t *Toolchain) goCommand(ctx context.Context, module string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(t.root, "hack", module)
	// The binaries must not depend on the machine's C library.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in hack/%s: %w: %s", args[0], module, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// repositoryRoot returns the nearest parent folder with the pinned modules.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "hack", Etcd.Module, "go.mod"))
		switch {
		case err == nil:
			return dir, nil
		case !errors.Is(err, os.ErrNotExist):
			return "", err
		case dir == filepath.Dir(dir):
			return "", fmt.Errorf("%q is not inside a checkout of the repository, whose hack folder pins what to build", start)
		}
	}
}
