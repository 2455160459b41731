// Package config holds the manifests that a cluster needs, for programs that
// install them.
package config

import "embed"

// AgentManifests are what a member cluster needs: rights and policies of the agent
// (agent/) and the kinds it works with (crd/agent/).
//
//go:embed agent/*.yaml crd/agent/*.yaml
var AgentManifests embed.FS

// BrokerManifests are the kinds that a broker cluster needs (crd/broker/).
//
//go:embed crd/broker/*.yaml
var BrokerManifests embed.FS
