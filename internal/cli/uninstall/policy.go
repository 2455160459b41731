// Package uninstall removes an installation without destroying what users hold through it, and
// without leaving objects behind.
//
// It runs twice, as hooks of the charts: before anything is deleted, while the controllers
// still work (Departure), and after they are gone (Cleanup).
package uninstall

import "fmt"

// Policy decides what happens to everything in use when an installation is removed. It is a
// flag.
type Policy string

// Policies.
const (
	// Refuse stops the uninstallation and prints what is in use.
	Refuse Policy = "Refuse"
	// Drain ends everything in use, and waits until it has ended.
	Drain Policy = "Drain"
	// Ignore leaves everything as it is.
	Ignore Policy = "Ignore"
)

// String implements pflag.Value.
func (p *Policy) String() string { return string(*p) }

// Type implements pflag.Value.
func (p *Policy) Type() string { return "policy" }

// Set implements pflag.Value.
func (p *Policy) Set(text string) error {
	switch policy := Policy(text); policy {
	case Refuse, Drain, Ignore:
		*p = policy
		return nil
	}
	return fmt.Errorf("unknown policy %q: use %s, %s or %s", text, Refuse, Drain, Ignore)
}
