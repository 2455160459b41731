// Package process runs programs as supervised children that never outlive
// their supervisor.
//
//	ends by            what stops the children
//	Supervisor.Stop    SIGTERM, then SIGKILL, layer by layer
//	death of the       the kernel: each child asked for SIGKILL when the thread that
//	supervisor         forked it dies, and that thread lives as long as the supervisor
//	anything else      the next supervisor of the same folder: it kills what the pid
//	                   files name, if the pid still is that very process
//
// It needs Linux, and no privilege.
package process
