package version

import "fmt"

// Skew holds the minor API versions of an agent and its broker. The two work together if
// these versions differ by at most one.
type Skew struct{ Agent, Broker int }

// Fits reports whether the agent and the broker work together.
func (s Skew) Fits() bool { return s.Agent-s.Broker <= 1 && s.Broker-s.Agent <= 1 }

// String returns a sentence that names both versions.
func (s Skew) String() string {
	return fmt.Sprintf("the broker speaks v1.%d of the API, this agent v1.%d", s.Broker, s.Agent)
}

// Advice returns what to upgrade if the agent and the broker do not work together.
// Otherwise it returns "".
func (s Skew) Advice() string {
	if s.Fits() {
		return ""
	}
	if s.Agent > s.Broker {
		return "upgrade the broker, one minor version after the other"
	}
	return "upgrade this agent, one minor version after the other"
}
