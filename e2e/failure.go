package e2e

import "fmt"

// Failure is a failed scenario. It names the step, the object and the log to read.
type Failure struct {
	Step, Object, Log string
	Err               error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("step %q, %s: %v (see %s)", f.Step, f.Object, f.Err, f.Log)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }
