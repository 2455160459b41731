// Package attacks lets hostile members attack a running playground. They use the identities that
// Liqo issued to them: two consumers, rome and berlin, and one provider, paris. A test that
// attacks a slice ends by running honest workloads on that slice and on the slice of the other
// consumer. During every test, an observer compares each consumer's usage with its grant.
package attacks
