// Package uninstall removes an installation of the broker or the agent. It leaves no objects
// behind, and it does not destroy what users still hold, unless the policy allows that.
//
// The charts run the uninstall command in two hooks. The first hook runs Departure before anything
// is deleted, while the controllers still work. The second hook runs Cleanup after they are gone.
package uninstall

import "fmt"

// Policy says what happens to everything in use when an installation is removed. It is the value of
// the flag --policy.
type Policy string

// Values of Policy.
const (
	// Refuse prints what is in use and makes the uninstallation fail.
	Refuse Policy = "Refuse"
	// Drain ends everything in use, and waits until it has ended.
	Drain Policy = "Drain"
	// Ignore leaves everything in use as it is, and lets the uninstallation continue.
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
