// Package config embeds sample manifests, so that programs and tests can apply
// them.
package config

import "embed"

// Samples are manifests of the CRDs (config/samples), which users can apply to try the product.
//
//go:embed samples/*.yaml
var Samples embed.FS

// AgentConfiguration is a sample of the agent's configuration file.
//
//go:embed samples/agent/agentconfiguration.yaml
var AgentConfiguration []byte

// Kueue is a sample of Kueue's configuration for borrowed nodes.
//
//go:embed samples/autoscaling/kueue.yaml
var Kueue []byte
