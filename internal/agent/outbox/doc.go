// Package outbox sends the agent's reports and messages to the broker, and repeats each one
// until it is taken.
package outbox
