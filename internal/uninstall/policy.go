// Package uninstall lets an installation go without losing what people hold through
// it, and without leaving behind what nobody would clean up.
//
// It runs twice, as hooks of the charts: before anything is deleted, while the
// controllers still work (Departure), and after they are gone (Cleanup).
package uninstall

import "fmt"

// Policy says what happens to what is in use when an installation is to go. It is a
// flag.
type Policy string

// Policies.
const (
	// Refuse stops the uninstallation and says what is in use.
	Refuse Policy = "Refuse"
	// Drain ends what is in use, and waits until it has ended.
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
	return fmt.Errorf("%q is unknown: use %s, %s or %s", text, Refuse, Drain, Ignore)
}
