// Package version says which build this is.
package version

import "runtime/debug"

// linked is the version that the linker was told, as "make build" and "make images" do:
// a tag, or what "git describe" says of the commit.
var linked string

// String is the version that was linked in, else the module's where the binary was
// built from a release, else the commit, else "unknown".
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
