package e2e

import "fmt"

// Failure is the error of a scenario that failed. It names the step, the object that was
// checked and the log to read.
type Failure struct {
	Step, Object, Log string
	Err               error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("step %q, %s: %v (see %s)", f.Step, f.Object, f.Err, f.Log)
}

// Unwrap returns the cause of the failure.
func (f *Failure) Unwrap() error { return f.Err }
