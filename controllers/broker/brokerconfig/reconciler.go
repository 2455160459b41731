package brokerconfig

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Reconcile hands the configuration to the broker whole, or not at all.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := &brokerv1alpha1.BrokerConfig{}
	err := r.client.Get(ctx, req.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		r.broker.SetConfig(ctx, broker.DefaultConfig())
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	ready := metav1.Condition{
		Type: brokerv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Applied",
		Message: "the broker decides by this configuration", ObservedGeneration: obj.Generation,
	}
	config, err := ConfigOf(&obj.Spec)
	if err != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Invalid", err.Error()+"; "+r.keep(ctx, &obj.Spec)
	} else {
		r.broker.SetConfig(ctx, config)
		ready.Message += contradictions(config.Access)
	}
	before := obj.DeepCopy()
	obj.Status.ObservedGeneration = obj.Generation
	meta.SetStatusCondition(&obj.Status.Conditions, ready)
	if equality.Semantic.DeepEqual(before.Status, obj.Status) || !r.broker.Serving() {
		// Every replica decides by it; the one that serves says so.
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.client.Status().Patch(ctx, obj, client.MergeFrom(before)))
}

// keep says what holds beside a configuration that cannot. One that is invalid when
// the broker starts must not let in whom it denies.
func (r *Reconciler) keep(ctx context.Context, spec *brokerv1alpha1.BrokerConfigSpec) string {
	if r.broker.Configured() {
		return "the former configuration stays in force"
	}
	config := broker.DefaultConfig()
	config.Access = access.PolicyOf(spec)
	r.broker.SetConfig(ctx, config)
	return "its access lists are in force, and else the defaults"
}

func contradictions(policy access.Policy) string {
	both := policy.Contradictions()
	if len(both) == 0 {
		return ""
	}
	return fmt.Sprintf("; approvedClusters and deniedClusters both have %q: denied wins", both)
}

// ConfigOf fills what the spec leaves out from the defaults.
func ConfigOf(spec *brokerv1alpha1.BrokerConfigSpec) (broker.Config, error) {
	config := broker.DefaultConfig()
	config.Access = access.PolicyOf(spec)
	if spec.ScoringPreset != "" {
		weights, err := decision.Preset(string(spec.ScoringPreset))
		if err != nil {
			return config, fmt.Errorf("scoringPreset: %w", err)
		}
		config.Weights = weights
	}
	if w := spec.ScoringWeights; w != nil {
		config.Weights = decision.Weights{
			decision.Availability: int(w.ResourceAvailability), decision.Cost: int(w.Cost),
			decision.Latency: int(w.Latency), decision.Reliability: int(w.Reliability),
		}
		if err := config.Weights.Validate(); err != nil {
			return config, fmt.Errorf("scoringWeights: %w", err)
		}
	}
	config.Headroom = int(spec.Headroom)
	config.Budget = budgetOf(spec.MemberBudget, config.Budget)
	if v := spec.Visibility; v != nil {
		config.Visibility = broker.Visibility{Candidates: v.Candidates, HidePrices: v.HidePrices}
	}
	var err error
	if config.OverSubscription, err = quantity.ParseRatios(spec.OverSubscriptionCeilings); err != nil {
		return config, fmt.Errorf("overSubscriptionCeilings: %w", err)
	}
	if config.Rates, err = ratesOf(spec.ExchangeRates); err != nil {
		return config, fmt.Errorf("exchangeRates: %w", err)
	}
	if spec.StaleThreshold != nil {
		config.StaleThreshold = spec.StaleThreshold.Duration
	}
	config.Queue, config.Preemption, config.Ceilings = queueOf(spec, config.Queue), preemptionOf(spec, config.Preemption), ceilingsOf(spec)
	if config.Bounds, err = broker.BoundsOf(spec); err != nil {
		return config, err
	}
	longest := config.Bounds.Duration
	if spec.DefaultTTL != nil {
		config.DefaultTTL = spec.DefaultTTL.Duration
		if longest != 0 && config.DefaultTTL > longest {
			return config, fmt.Errorf("defaultTTL: %s is longer than maxDuration %s: shorten it or raise maxDuration", config.DefaultTTL, longest)
		}
	} else if longest != 0 {
		config.DefaultTTL = min(config.DefaultTTL, longest)
	}
	return config, nil
}

func budgetOf(set *brokerv1alpha1.MemberBudget, budget broker.Budget) broker.Budget {
	if set == nil {
		return budget
	}
	budget.Reservations = cmp.Or(int(set.Reservations), budget.Reservations)
	budget.Waiting = cmp.Or(int(set.Waiting), budget.Waiting)
	budget.ResourceNames = cmp.Or(int(set.ResourceNames), budget.ResourceNames)
	if set.JournalPerHour != nil {
		budget.JournalPerHour = set.JournalPerHour.Value()
	}
	return budget
}

func ratesOf(table *brokerv1alpha1.ExchangeRates) (decision.Rates, error) {
	if table == nil {
		return decision.Rates{}, nil
	}
	if _, err := time.Parse(time.DateOnly, table.Date); err != nil {
		return decision.Rates{}, fmt.Errorf("date: %q is no day: write one as in 2026-11-20", table.Date)
	}
	rates := decision.Rates{Date: table.Date, Base: table.Base, Per: map[string]decision.Price{}}
	for code, text := range table.Rates {
		rate, err := decision.ParsePrice(string(text))
		if err != nil {
			return decision.Rates{}, fmt.Errorf("rates[%s]: %w", code, err)
		}
		rates.Per[code] = rate
	}
	return rates, rates.Validate()
}
