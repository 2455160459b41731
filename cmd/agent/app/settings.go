package app

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/pricing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// maxNodeLabels is how many node labels a cluster may publish. The CRD of the Advertisement has
// the same limit.
const maxNodeLabels = 16

// checkNodeLabels returns an error for node labels that the CRD of the Advertisement does not
// accept. With such labels, the agent could not write its Advertisement.
func (o *options) checkNodeLabels() error {
	keys := map[string]string{}
	for _, key := range o.nodeLabels {
		keys[key] = ""
	}
	return requirements.CheckLabels("--node-labels", keys, maxNodeLabels)
}

// settings provides the values of the configuration file, or the defaults if there is no file.
type settings struct {
	// file watches the configuration file. It is nil without --config.
	file *configuration.Keeper
	// pricer determines the prices if the file names node labels or OpenCost as their source. It is
	// nil without a file.
	pricer *pricing.Pricer
}

var _ advertisement.Settings = (*settings)(nil)

// openSettings reads the configuration file, if there is one.
func (a *agent) openSettings() error {
	a.settings = &settings{}
	if a.configFile == "" {
		return nil
	}
	var err error
	a.settings.file, err = configuration.Open(a.configFile, clock.RealClock{}, a.log.WithName("configuration"))
	return err
}

func (s *settings) currentConfiguration() *configuration.Configuration {
	if s.file == nil {
		return configuration.Default()
	}
	return s.file.Current()
}

// Offered implements advertisement.Settings.
func (s *settings) Offered() advertisement.Offered {
	c := s.currentConfiguration()
	out := advertisement.Offered{
		Cost: c.Prices, Labels: wire.ToLabels(c.Labels), Claims: wire.ToLabels(c.Claims), Rules: s.offerRules(),
	}
	if at := s.ownPlace(); at != (guard.Place{}) {
		out.Topology = &brokerv1alpha1.Topology{Region: at.Region, Zone: at.Zone}
	}
	if s.pricer != nil {
		out.Cost = s.pricer.Cost()
	}
	return out
}

// offerRules returns the rules for how much of the free capacity is lent.
func (s *settings) offerRules() offering.Rules { return s.currentConfiguration().Offer }

// ownPlace returns the region and zone of the cluster.
func (s *settings) ownPlace() guard.Place {
	c := s.currentConfiguration()
	return guard.Place{Region: c.Region, Zone: c.Zone}
}

// Changed implements advertisement.Settings.
func (s *settings) Changed() <-chan struct{} {
	if s.file == nil {
		return nil
	}
	return s.file.Changed()
}

// Conditions implements advertisement.Settings.
func (s *settings) Conditions() []metav1.Condition {
	if s.file == nil {
		return nil
	}
	out := []metav1.Condition{s.inForce()}
	if s.pricer != nil {
		if c := s.pricer.Condition(); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// inForce returns the condition Configured: whether the current content of the file is in force.
func (s *settings) inForce() metav1.Condition {
	if err := s.file.Problem(); err != nil {
		return metav1.Condition{
			Type: agentv1alpha1.ConditionConfigured, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonConfigurationRefused,
			Message: "the last valid configuration stays in force: " + err.Error(),
		}
	}
	return metav1.Condition{
		Type: agentv1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonConfigured,
		Message: "the configuration file is in force",
	}
}
