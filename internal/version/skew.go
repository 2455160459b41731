package version

import "fmt"

// Skew is what lies between an agent and its broker: the minor versions of the API that
// each of them speaks. An agent works with a broker that is at most one older or newer.
type Skew struct{ Agent, Broker int }

// Fits reports whether they work together.
func (s Skew) Fits() bool { return s.Agent-s.Broker <= 1 && s.Broker-s.Agent <= 1 }

// String says it to people.
func (s Skew) String() string {
	return fmt.Sprintf("the broker speaks v1.%d of the API, this agent v1.%d", s.Broker, s.Agent)
}

// Advice is what to do where they do not fit.
func (s Skew) Advice() string {
	if s.Fits() {
		return ""
	}
	if s.Agent > s.Broker {
		return "upgrade the broker, one minor version after the other"
	}
	return "upgrade this agent, one minor version after the other"
}
