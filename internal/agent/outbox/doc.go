// Package outbox sends the agent's reports and messages to the broker, and repeats each one
// until the broker accepts it.
package outbox
