// Package version identifies the build of a program, and compares API versions.
package version

import "runtime/debug"

// Product is the name of this product. All its components use it as the source of the events
// that they record.
const Product = "liqo-resource-broker"

// linked is the version that the linker sets in "make build" and "make images": a tag, or the
// output of "git describe". In other builds it is empty.
var linked string

// String returns the version of this build: the version that the linker set, or else the
// version of the Go module, or else the commit. If none of them is known, it returns
// "unknown".
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
