// Package process runs programs as supervised children that never outlive their supervisor.
//
//	how the supervisor ends   what stops the children
//	Supervisor.Stop           SIGTERM, then SIGKILL, layer by layer
//	death of the process      the kernel: each child has a parent-death signal,
//	                          which fires when the thread that forked it dies;
//	                          that thread lives as long as the supervisor
//	anything else             the next supervisor of the same folder: it kills the
//	                          processes in the pid files that are still the same
//
// It requires Linux, but no privileges.
package process
