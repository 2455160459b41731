// Package attacks has hostile members attack a running playground with the identities that Liqo
// issued to them: two consumers, rome and berlin, and one provider, paris. A test that attacks a
// slice ends with honest workloads on that slice and on its neighbour's. Throughout the test, an
// observer compares each consumer's usage with its grant.
package attacks
