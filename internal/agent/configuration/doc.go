// Package configuration reads the agent's configuration file, and reads it again while the agent
// runs. If the file becomes invalid, the last valid configuration stays in force.
//
//	file ──Parse──▶ Configuration ──▶ Keeper ──▶ advertisement
//	                (or an error that names line or field, value and remedy)
package configuration
