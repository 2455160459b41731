package advertisement

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/pricing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// FileSettings are the values of the configuration file, or the defaults if there is no file.
type FileSettings struct {
	// File watches the configuration file. It is nil if there is none.
	File *configuration.Keeper
	// Pricer determines the prices if the file names node labels or OpenCost; nil without a file.
	Pricer *pricing.Pricer
}

func (s *FileSettings) currentConfiguration() *configuration.Configuration {
	if s.File == nil {
		return configuration.Default()
	}
	return s.File.Current()
}

// Offered implements Settings.
func (s *FileSettings) Offered() Offered {
	c := s.currentConfiguration()
	out := Offered{
		Cost: c.Prices, Labels: wire.ToLabels(c.Labels), Claims: wire.ToLabels(c.Claims), Rules: s.OfferRules(),
	}
	if at := s.OwnPlace(); at != (guard.Place{}) {
		out.Topology = &brokerv1alpha1.Topology{Region: at.Region, Zone: at.Zone}
	}
	if s.Pricer != nil {
		out.Cost = s.Pricer.Cost()
	}
	return out
}

// OfferRules returns the rules for how much of the free capacity is lent.
func (s *FileSettings) OfferRules() offering.Rules { return s.currentConfiguration().Offer }

// OwnPlace returns the region and zone of the cluster.
func (s *FileSettings) OwnPlace() guard.Place {
	c := s.currentConfiguration()
	return guard.Place{Region: c.Region, Zone: c.Zone}
}

// Changed implements Settings.
func (s *FileSettings) Changed() <-chan struct{} {
	if s.File == nil {
		return nil
	}
	return s.File.Changed()
}

// Conditions implements Settings.
func (s *FileSettings) Conditions() []metav1.Condition {
	if s.File == nil {
		return nil
	}
	out := []metav1.Condition{s.inForce()}
	if s.Pricer != nil {
		if c := s.Pricer.Condition(); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

func (s *FileSettings) inForce() metav1.Condition {
	if err := s.File.Problem(); err != nil {
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
