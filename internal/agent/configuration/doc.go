// Package configuration reads the agent's configuration file and keeps the last valid state in
// force while the file changes.
//
//	file ──Parse──▶ Configuration ──▶ Keeper ──▶ advertisement
//	                (or an error that names line or field, value and remedy)
package configuration
