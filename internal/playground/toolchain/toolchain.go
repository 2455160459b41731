// Package toolchain builds the third-party programs that the playground and the integration tests run. Modules under
// hack/ pin their versions. The binaries are cached.
//
// Each binary in the cache has a stamp, which is a digest of everything that determines the binary. If the stamp is
// no longer right, the program is built again.
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

// CacheVariable is the environment variable that sets the folder of the cache. By default the cache is in the user's
// cache folder, so that several checkouts share it.
const CacheVariable = "LRB_CACHE"

// Toolchain finds and builds programs. Several processes may use the same cache.
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

// cacheDir returns the folder of the cache. If the user has no home directory, it is a folder in the checkout.
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

// Path returns the path of a tool's binary. The binary exists only after Ensure was called for the tool.
func (t *Toolchain) Path(tool Tool) string { return filepath.Join(t.bin, tool.Name) }

// Ensure builds the tools whose binaries are missing or outdated. The first build compiles Kubernetes, which takes
// minutes.
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

// ModuleDir returns the folder with the sources of a module. The go.mod in a folder below hack, named by the parameter
// in, pins the version.
func (t *Toolchain) ModuleDir(ctx context.Context, in, module string) (string, error) {
	list := func() (string, error) { return t.goCommand(ctx, in, "list", "-m", "-f", "{{.Dir}}", module) }
	dir, err := list()
	if err != nil || dir != "" {
		return dir, err
	}
	// The sources may be missing even if the binaries are cached.
	if _, err := t.goCommand(ctx, in, "mod", "download", module); err != nil {
		return "", err
	}
	return list()
}

// ModuleVersion returns the version of a module that the go.mod in a folder below hack (the parameter in) pins.
func (t *Toolchain) ModuleVersion(ctx context.Context, in, module string) (string, error) {
	return t.goCommand(ctx, in, "list", "-m", "-f", "{{.Version}}", module)
}

// build compiles a tool. A lock file ensures that only one of several processes compiles it.
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
	// The build writes a new file, because the file of a running program can be replaced but not written to.
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

// linkerFlags returns the flags for the linker. For a stamped tool they set the version of Kubernetes, on which
// clients rely. Without them, the program reports v0.0.0-master.
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
	// Without cgo, the binaries do not depend on the machine's C library.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in hack/%s: %w: %s", args[0], module, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// repositoryRoot returns the nearest parent folder that contains the modules under hack/.
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
