// Package notify turns the records of the journal into events for people and programs outside of
// the broker. It also selects the events that a channel receives, and encodes and signs them. It
// has no clock and no connection; package outbox delivers the events.
package notify
