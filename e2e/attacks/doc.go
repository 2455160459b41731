// Package attacks has hostile members attack a running playground with the identities that
// Liqo issued to them: two consumers, rome and berlin, and one provider, paris. Each test
// ends with honest workloads on the slice that was attacked and on its neighbour's, and an
// observer compares what each consumer runs with its grant all the time.
package attacks
