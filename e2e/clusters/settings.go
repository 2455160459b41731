package clusters

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Environment variables with the settings. "make e2e" sets them.
const (
	// kubeconfigVariable is the kubeconfig with a context for each cluster. It is required.
	kubeconfigVariable = "E2E_KUBECONFIG"
	// brokerVariable is the context of the broker's cluster; kind-broker by default.
	brokerVariable = "E2E_BROKER"
	// membersVariable lists members as ID=context, separated by commas; by default
	// rome=kind-rome,paris=kind-paris.
	membersVariable = "E2E_MEMBERS"
	// repositoryVariable is the prefix of the product's images; by default the charts' own.
	repositoryVariable = "E2E_REPOSITORY"
	// tagVariable is the tag of the product's images; by default the charts' own.
	tagVariable = "E2E_TAG"
	// previousTagVariable and previousChartsVariable are the image tag and the chart folder of an earlier version,
	// from which the tests upgrade.
	previousTagVariable    = "E2E_PREVIOUS_TAG"
	previousChartsVariable = "E2E_PREVIOUS_CHARTS"
)

// Version is a version of the product to install.
type Version struct {
	// Charts is the folder with the charts broker and agent.
	Charts string
	// Tag of the images; the charts' own if empty.
	Tag string
}

// Settings are the clusters to use and the versions to install.
type Settings struct {
	Kubeconfig string
	// Broker is the context of the broker's cluster. Members are the contexts of the members by cluster ID.
	Broker  string
	Members map[string]string
	// Repository is the prefix of image names; the charts' own if empty.
	Repository string
	// Version is the version under test. Previous is the version to upgrade from, nil if there is none.
	Version  Version
	Previous *Version
	// Progress receives the steps; nil discards them.
	Progress progress.Reporter

	tools *toolchain.Toolchain
}

// FromEnvironment reads the settings from the environment.
func FromEnvironment(report progress.Reporter) (s Settings, err error) {
	s.Kubeconfig, s.Progress = os.Getenv(kubeconfigVariable), report
	if s.Kubeconfig == "" {
		return s, fmt.Errorf("%s is not set: run make e2e, which creates clusters", kubeconfigVariable)
	}
	s.Broker = cmp.Or(os.Getenv(brokerVariable), "kind-broker")
	s.Members = map[string]string{}
	for pair := range strings.SplitSeq(cmp.Or(os.Getenv(membersVariable), "rome=kind-rome,paris=kind-paris"), ",") {
		id, context, found := strings.Cut(pair, "=")
		if !found {
			return s, fmt.Errorf("%s: %q is not ID=context", membersVariable, pair)
		}
		s.Members[id] = context
	}
	if s.tools, err = toolchain.New(s.Progress); err != nil {
		return s, err
	}
	s.Repository = os.Getenv(repositoryVariable)
	s.Version = Version{Charts: filepath.Join(s.tools.Root(), "charts"), Tag: os.Getenv(tagVariable)}
	if charts := os.Getenv(previousChartsVariable); charts != "" {
		s.Previous = &Version{Charts: charts, Tag: os.Getenv(previousTagVariable)}
	}
	return s, nil
}
