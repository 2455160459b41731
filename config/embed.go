// Package config holds sample manifests, for programs that try them.
package config

import "embed"

// Samples are manifests to try (samples/).
//
//go:embed samples/*.yaml
var Samples embed.FS

// AgentConfiguration is a sample of the agent's configuration file.
//
//go:embed samples/agent/agentconfiguration.yaml
var AgentConfiguration []byte
