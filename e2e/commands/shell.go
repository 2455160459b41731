package commands

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Shell runs blocks in one folder, as if a reader pasted them into a shell.
type Shell struct {
	// Dir is the working folder.
	Dir string
	// Env is added to the environment variables of this process.
	Env []string
	// Bin is a folder with programs that run instead of those of the same name on the machine.
	Bin string
}

// Install writes a bash script that runs instead of a program with that name.
func (s *Shell) Install(program, script string) error {
	return os.WriteFile(filepath.Join(s.Bin, program), []byte("#!/usr/bin/env bash\nset -euo pipefail\n"+script), 0o755)
}

// timeout is how long a block may take. It is longer than the longest wait in the pages.
const timeout = 5 * time.Minute

// Run runs a script with bash. The script stops at the first command that fails. Run returns the output of the
// commands.
func (s *Shell) Run(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = s.Dir
	cmd.Env = append(append(os.Environ(), "PATH="+s.Bin+string(filepath.ListSeparator)+os.Getenv("PATH")), s.Env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w\n%s\n%s", err, script, out)
	}
	return string(out), nil
}
