// Package charts embeds the Helm charts of broker and agent, so that programs can render
// them.
package charts

import (
	"embed"
	"io/fs"
)

//go:embed all:broker all:agent
var files embed.FS

// Broker returns the files of the chart of the broker (charts/broker).
func Broker() fs.FS { return folder("broker") }

// Agent returns the files of the chart of the agent (charts/agent).
func Agent() fs.FS { return folder("agent") }

// folder returns one folder of the embedded files. It cannot fail for a folder in
// the go:embed directive.
func folder(name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err)
	}
	return sub
}
