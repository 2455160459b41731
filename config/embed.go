// Package config holds the manifests that a cluster needs, for programs that
// install them.
package config

import "embed"

// AgentManifests are what a member cluster needs: rights and policies of the agent
// (agent/) and the kinds it works with (crd/agent/).
//
//go:embed agent/*.yaml crd/agent/*.yaml
var AgentManifests embed.FS

// BrokerManifests are what a broker cluster needs: the rights of the broker
// (broker/) and the kinds it works with (crd/broker/).
//
//go:embed broker/*.yaml crd/broker/*.yaml
var BrokerManifests embed.FS

// Samples are manifests to try (samples/).
//
//go:embed samples/*.yaml
var Samples embed.FS
