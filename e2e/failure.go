package e2e

import "fmt"

// Failure is a scenario that went wrong. It names the step, the object that was
// looked at and the log that knows more.
type Failure struct {
	Step, Object, Log string
	Err               error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("step %q, %s: %v (see %s)", f.Step, f.Object, f.Err, f.Log)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }
