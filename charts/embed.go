// Package charts holds the Helm charts of broker and agent, for programs that render
// them.
package charts

import (
	"embed"
	"io/fs"
)

//go:embed all:broker all:agent
var files embed.FS

// Broker is the chart of the broker (charts/broker).
func Broker() fs.FS { return folder("broker") }

// Agent is the chart of the agent (charts/agent).
func Agent() fs.FS { return folder("agent") }

// folder of what is embedded. It is there, or this does not compile.
func folder(name string) fs.FS {
	sub, err := fs.Sub(files, name)
	if err != nil {
		panic(err)
	}
	return sub
}
