// Package trail describes the records of the journal for people and programs outside of the broker:
// who did what to which reservation, and between which clusters. It also writes exports of records,
// and checks them.
package trail
