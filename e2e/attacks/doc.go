// Package attacks has hostile members attack a running playground with the identities that Liqo
// issued to them: two consumers, rome and berlin, and one provider, paris. Each test ends with
// honest workloads on the attacked slice and on its neighbour's. Throughout the test, an observer
// compares each consumer's usage with its grant.
package attacks
