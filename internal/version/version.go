// Package version identifies the build.
package version

import "runtime/debug"

// Product is the name under which all components record events.
const Product = "liqo-resource-broker"

// linked is set by the linker in "make build" and "make images": a tag, or the output of "git
// describe".
var linked string

// String returns the linked version, else the module version of a release build, else the
// commit, else "unknown".
func String() string {
	if linked != "" {
		return linked
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}
