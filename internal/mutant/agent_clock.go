//go:build mutant_agent_clock

package mutant

// Active is the mistake that this binary has.
const Active = AgentClock
