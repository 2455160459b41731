// Package e2etest holds what the end-to-end test packages share: a playground that boots once for all tests of a
// package, checks of its logs, and the objects that peers write.
package e2etest
