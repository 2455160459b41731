// Package e2etest contains what the packages of end-to-end tests share: a playground that is started once for
// all tests of a package, checks of its logs, and objects that peers write.
package e2etest
