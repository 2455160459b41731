// Package process runs programs as supervised children that never outlive their supervisor.
//
//	how the supervisor ends   what stops the children
//	Supervisor.Stop           SIGTERM, then SIGKILL, layer by layer
//	death of the process      the kernel: it sends each child its parent-death signal
//	                          when the thread that started the child ends; this
//	                          thread runs as long as the supervisor
//	anything else             the next supervisor of the same folder: it kills the
//	                          processes that the pid files name, if they still run
//
// The package requires Linux, but no privileges.
package process
