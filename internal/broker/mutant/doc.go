// Package mutant has mistakes that a broker can be built with, by the build tag mutants:
// they show that tests of the broker's promises find whoever breaks one. A process makes
// the one that Variable names. Without the tag every comparison with Active is settled by
// the compiler, and nothing of them is in the binary.
package mutant

// Mutant is one mistake.
type Mutant string

// Variable of the environment names the mistake of a process that is built with the tag.
const Variable = "LRB_MUTANT"

// Mistakes that can be built in.
const (
	// SkipSwap: an append replaces the tail whatever its resourceVersion is now.
	SkipSwap Mutant = "skip-swap"
	// StaleGrant: a grant trusts figures from before the grants that came first.
	StaleGrant Mutant = "stale-grant"
	// ForgetKey: a reservation is not found by its idempotency key.
	ForgetKey Mutant = "forget-key"
	// ForgetTombstone: the release of an unknown key leaves nothing behind.
	ForgetTombstone Mutant = "forget-tombstone"
	// AgentClock: how fresh an advertisement is depends on the time that its agent wrote on it.
	AgentClock Mutant = "agent-clock"
	// OldAdvertisement: an advertisement that was overtaken by a newer one replaces it.
	OldAdvertisement Mutant = "old-advertisement"
	// EarlyResale: capacity is sold again before its provider has confirmed that it is free.
	EarlyResale Mutant = "early-resale"
	// ReleaseTwice: a provider that confirms twice gives its capacity back twice.
	ReleaseTwice Mutant = "release-twice"
	// CountBoth: what runs for a reservation is subtracted beside what it holds.
	CountBoth Mutant = "count-both"
	// HastyAnswer: callers are answered before what they are told is durable.
	HastyAnswer Mutant = "hasty-answer"
	// HastyShrink: less is held as soon as less is asked for, before the provider has taken
	// the rest back.
	HastyShrink Mutant = "hasty-shrink"
	// HastyLeave: a provider that is lost is left before the new node is Ready.
	HastyLeave Mutant = "hasty-leave"
	// EarlyExpiry: a reservation ends one second before its time.
	EarlyExpiry Mutant = "early-expiry"
	// OutOfOrder: who waits is served in the order of coming, whatever its priority.
	OutOfOrder Mutant = "out-of-order"
	// EqualVictim: reservations make room for one of their own priority.
	EqualVictim Mutant = "equal-victim"
	// LateTake: a quote is taken over that is not held any more.
	LateTake Mutant = "late-take"
	// ShortPause: a provider that fails again and again is never paused for longer.
	ShortPause Mutant = "short-pause"
	// OneWord: the reports of one requester pause a provider for everybody.
	OneWord Mutant = "one-word"
	// Accomplice: one success makes up for all failures, whoever reports it.
	Accomplice Mutant = "accomplice"
)

// All lists them.
var All = []Mutant{
	SkipSwap,
	StaleGrant,
	ForgetKey,
	ForgetTombstone,
	AgentClock,
	OldAdvertisement,
	EarlyResale,
	ReleaseTwice,
	CountBoth,
	HastyAnswer,
	HastyShrink,
	HastyLeave,
	EarlyExpiry,
	OutOfOrder,
	EqualVictim,
	LateTake,
	ShortPause,
	OneWord,
	Accomplice,
}
