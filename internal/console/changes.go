package console

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/edits"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// actions lists the changes that users can make. An action whose objects are not in the cluster is not found.
var actions = []action{
	{name: "reserve", title: "Reserve", done: "The request is made.", prepare: (*visit).askReserve},
	{name: "extend", title: "Extend", done: "The request has a longer duration.", prepare: (*visit).askExtend},
	{name: "release", title: "Release", done: "The capacity is being given back.", prepare: (*visit).askRelease},
	{name: "recall", title: "Call back", done: "The recall is in the LendingPolicy.", prepare: (*visit).askRecall},
	{name: "keep", title: "Withdraw the recall", done: "The recall is withdrawn.", prepare: (*visit).askKeep},
	{name: "approve", title: "Approve", done: "The cluster is approved.", prepare: (*visit).askApprove},
	{name: "drain", title: "Drain", done: "The cluster is being drained.", prepare: (*visit).askDrain},
	{name: "undrain", title: "End the drain", done: "The cluster provides again.", prepare: (*visit).askUndrain},
}

// actionsFor returns links to the actions that change an object.
func (v *visit) actionsFor(about view.Ref) []actionLink {
	if !v.site.actions {
		return nil
	}
	switch about.Kind {
	case "ResourceRequest", "Reservation":
		return v.actionsForDemand(v.demandOf(about))
	case "ClusterAdvertisement":
		if v.drainOf(about) != nil {
			return v.linksToActions(about, "undrain")
		}
		return v.linksToActions(about, "drain")
	case "ProviderInstruction":
		p := v.snapshot.Member.FindProvided(about)
		switch {
		case p.Spec.Release:
			return nil
		case p.Status.Recalled != nil:
			return v.linksToActions(about, "keep")
		}
		return v.linksToActions(about, "recall")
	case "BrokerConfig":
		var links []actionLink
		for _, p := range v.snapshot.Broker.Config.Status.PendingEnrolments {
			for _, link := range v.linkToAction("approve", map[string]string{"cluster": p.ClusterID}) {
				links = append(links, actionLink{"Approve " + p.ClusterID + "…", link.Address})
			}
		}
		return links
	}
	return nil
}

// demandOf returns the ResourceRequest or Reservation that a reference names, with its phase. It must exist.
func (v *visit) demandOf(about view.Ref) (edits.Demand, string) {
	if about.Kind == "Reservation" {
		r := v.snapshot.Broker.FindReservation(about)
		return edits.Demand{Object: r, Reservation: r}, string(r.Status.Phase)
	}
	r := v.snapshot.Member.FindRequest(about)
	return edits.Demand{Object: r, Request: r}, string(r.Status.Phase)
}

func (v *visit) actionsForDemand(d edits.Demand, phase string) []actionLink {
	over := []string{string(brokerv1alpha1.ReservationReleasing), string(brokerv1alpha1.ReservationReleased), string(brokerv1alpha1.ReservationFailed)}
	switch {
	case d.CheckOwner() != nil || slices.Contains(over, phase):
		return nil
	case *d.DurationField() == nil:
		return v.linksToActions(d.Ref(), "release")
	}
	return v.linksToActions(d.Ref(), "extend", "release")
}

// drainOf returns the entry in spec.drains for the cluster of a ClusterAdvertisement, nil if there is none, or if the
// visitor may not list the BrokerConfig.
func (v *visit) drainOf(about view.Ref) *brokerv1alpha1.ClusterDrain {
	config, id := v.snapshot.Broker.Config, v.snapshot.Broker.FindCluster(about).Spec.ClusterID
	if config == nil {
		return nil
	}
	for i := range config.Spec.Drains {
		if config.Spec.Drains[i].ClusterID == id {
			return &config.Spec.Drains[i]
		}
	}
	return nil
}

func (v *visit) askReserve(form url.Values) (*actionPage, error) {
	if !v.site.member {
		return nil, errNotFound
	}
	query, _ := quoteQueryOf(form)
	name := form.Get("name")
	p := &actionPage{
		Question: "Ask the broker for this capacity? It is held, and may cost money, until it is released or its duration ends.", Button: "Reserve",
		Fields: append([]actionField{{Name: "name", Label: "Name", Value: name, Example: "my-request", Required: true}}, query.fields()...),
		Back:   "/quote", about: view.Ref{Kind: "ResourceRequest", Namespace: query.Namespace, Name: name},
		command: "kubectl broker reserve " + quoteWord(cmp.Or(name, "NAME")) + query.arguments(),
	}
	p.run = func(ctx context.Context, c client.Client) error {
		rr, err := query.buildRequest()
		if err != nil {
			return err
		}
		rr.GenerateName, rr.Name = "", name
		return c.Create(ctx, rr)
	}
	return p, nil
}

// patchDemand returns a function that edits a ResourceRequest or Reservation.
func patchDemand(about view.Ref, edit func(d edits.Demand) error) func(ctx context.Context, c client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		d := edits.NewDemand(about.Kind, client.ObjectKey{Namespace: about.Namespace, Name: about.Name})
		return edits.Patch(ctx, c, d.Object, func(client.Object) error {
			if err := d.CheckOwner(); err != nil {
				return err
			}
			return edit(d)
		})
	}
}

func (v *visit) askExtend(form url.Values) (*actionPage, error) {
	about, err := v.subjectOf(form, "ResourceRequest", "Reservation")
	if err != nil {
		return nil, err
	}
	held, longer := "", form.Get("for")
	if d, _ := v.demandOf(about); *d.DurationField() != nil {
		held = (*d.DurationField()).Duration.String()
	}
	return &actionPage{
		Question: "How much longer shall " + about.Short() + " in namespace " + about.Namespace + " be held?", Button: "Extend", about: about,
		Fields: []actionField{
			{Name: "for", Label: "Longer by", Value: longer, Example: "3h", Required: true},
			{Name: "held", Value: held, Hidden: true}, // so that a form that is sent twice extends once
		},
		command: "kubectl broker extend " + about.Short() + " " + quoteWord(cmp.Or(longer, "DURATION")) + " -n " + about.Namespace,
		run: func(ctx context.Context, c client.Client) error {
			by, err := parseLength(longer, "longer by")
			if err != nil {
				return err
			}
			return patchDemand(about, func(d edits.Demand) error {
				if now := *d.DurationField(); now != nil && now.Duration.String() != form.Get("held") {
					return fmt.Errorf("the duration has just been changed to %s: check whether you still want to extend it", now.Duration)
				}
				_, err := d.Extend(by)
				return err
			})(ctx, c)
		},
	}, nil
}

func (v *visit) askRelease(form url.Values) (*actionPage, error) {
	about, err := v.subjectOf(form, "ResourceRequest", "Reservation")
	if err != nil {
		return nil, err
	}
	return &actionPage{
		Question: "Release " + about.Short() + " in namespace " + about.Namespace + "? Pods on its node are evicted. This cannot be taken back.", Button: "Release",
		command: "kubectl broker release " + about.Short() + " -n " + about.Namespace, about: about,
		run: patchDemand(about, func(d edits.Demand) error { d.SetRelease(); return nil }),
	}, nil
}

// askAboutPlacement returns the page of an action that edits the LendingPolicy because of a placement.
func (v *visit) askAboutPlacement(form url.Values, edit func(*agentv1alpha1.LendingPolicy, *agentv1alpha1.ProviderInstruction) error) (*actionPage, *agentv1alpha1.ProviderInstruction, error) {
	about, err := v.subjectOf(form, "ProviderInstruction")
	if err != nil {
		return nil, nil, err
	}
	placement := v.snapshot.Member.FindProvided(about)
	return &actionPage{
		command: "kubectl edit lendingpolicy " + agentv1alpha1.LendingPolicyName, about: about,
		run: func(ctx context.Context, c client.Client) error {
			return edits.PatchOrCreate(ctx, c, edits.NewPolicy(), func(policy *agentv1alpha1.LendingPolicy) error { return edit(policy, placement) })
		},
	}, placement, nil
}

func (v *visit) askRecall(form url.Values) (*actionPage, error) {
	all, noticed := form.Get("all") != "", cmp.Or(form.Get("notice"), "10m")
	p, placement, err := v.askAboutPlacement(form, func(policy *agentv1alpha1.LendingPolicy, of *agentv1alpha1.ProviderInstruction) error {
		notice, err := parseLength(noticed, "notice")
		if err != nil {
			return err
		}
		entry := agentv1alpha1.Recall{Notice: &metav1.Duration{Duration: notice}, Message: form.Get("message")}
		if all {
			entry.Consumer = of.Spec.RequesterClusterID
		} else {
			entry.Reservation = of.Spec.ReservationName
		}
		edits.SetRecall(policy, entry)
		return nil
	})
	if err != nil {
		return nil, err
	}
	consumer := placement.Spec.RequesterClusterID
	p.Question = fmt.Sprintf("Call back what %s uses of this cluster for %s? It ends when another cluster serves it, at the latest when the notice is over.", consumer, placement.Spec.ReservationName)
	p.Button, p.Fields = "Call back", []actionField{
		{Name: "notice", Label: "Notice", Value: noticed, Example: "10m", Required: true},
		{Name: "message", Label: "Reason, for " + consumer, Value: form.Get("message"), Example: "maintenance of rack 4"},
		newCheckbox(form, "all", "Everything that "+consumer+" uses here, and nothing new for it"),
	}
	return p, nil
}

// newCheckbox returns a field that can be checked.
func newCheckbox(form url.Values, name, label string) actionField {
	return actionField{Name: name, Label: label, Value: form.Get(name), Checkbox: true}
}

func (v *visit) askKeep(form url.Values) (*actionPage, error) {
	p, placement, err := v.askAboutPlacement(form, func(policy *agentv1alpha1.LendingPolicy, of *agentv1alpha1.ProviderInstruction) error {
		edits.EndRecall(policy, of.Spec.ReservationName, of.Spec.RequesterClusterID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.Question = fmt.Sprintf("Let %s keep what it uses of this cluster for %s? Recalls of all that %s uses end, too.", placement.Spec.RequesterClusterID, placement.Spec.ReservationName, placement.Spec.RequesterClusterID)
	p.Button = "Withdraw the recall"
	return p, nil
}

// changeConfig returns a function that edits the BrokerConfig.
func changeConfig(edit func(*brokerv1alpha1.BrokerConfig) error) func(ctx context.Context, c client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return edits.PatchOrCreate(ctx, c, edits.NewConfig(), edit)
	}
}

func (v *visit) askApprove(form url.Values) (*actionPage, error) {
	id, fingerprint := form.Get("cluster"), form.Get("fingerprint")
	config := v.configOf()
	if config == nil || !slices.ContainsFunc(config.Status.PendingEnrolments, func(p brokerv1alpha1.PendingEnrolment) bool { return p.ClusterID == id }) {
		return nil, errNotFound
	}
	return &actionPage{
		Question: "Let " + id + " take part? Type the fingerprint of its key as the agent of " + id + " logs it: whoever asked first is listed here, under whatever name it likes.", Button: "Approve",
		Fields:  []actionField{{Name: "fingerprint", Label: "Fingerprint", Value: fingerprint, Example: "sha256:…", Required: true}},
		command: "kubectl broker approve " + quoteWord(id) + " --fingerprint " + quoteWord(cmp.Or(fingerprint, "FINGERPRINT")),
		about:   view.Ref{Kind: "BrokerConfig", Name: config.Name},
		run:     changeConfig(func(config *brokerv1alpha1.BrokerConfig) error { return edits.ApproveCluster(config, id, fingerprint) }),
	}, nil
}

// configOf returns the BrokerConfig, nil if there is none or the visitor may not list it.
func (v *visit) configOf() *brokerv1alpha1.BrokerConfig {
	if v.snapshot.Broker == nil {
		return nil
	}
	return v.snapshot.Broker.Config
}

func (v *visit) askDrain(form url.Values) (*actionPage, error) {
	about, err := v.subjectOf(form, "ClusterAdvertisement")
	if err != nil {
		return nil, err
	}
	id, cordonOnly := v.snapshot.Broker.FindCluster(about).Spec.ClusterID, form.Get("cordon-only") != ""
	notice, reason := cmp.Or(form.Get("notice"), "10m"), form.Get("reason")
	p := &actionPage{
		Question: fmt.Sprintf("Drain %s? On it: %s. Each moves to another cluster, and waits or ends if none has room at the end of the notice.", id, edits.DescribeAffected(v.snapshot, id)), Button: "Drain",
		Fields: []actionField{
			{Name: "notice", Label: "Notice", Value: notice, Example: "10m", Required: true}, {Name: "reason", Label: "Reason, for the requesters", Value: reason, Example: "maintenance of rack 4"},
			newCheckbox(form, "cordon-only", "Cordon only: reservations may stay"),
		},
		command: withFlags("kubectl broker drain "+quoteWord(id), flagValue{"notice", notice}, flagValue{"reason", reason}), about: about,
	}
	if cordonOnly {
		p.command = withFlags("kubectl broker drain "+quoteWord(id)+" --cordon-only", flagValue{"reason", reason})
	}
	p.run = changeConfig(func(config *brokerv1alpha1.BrokerConfig) error {
		length, err := parseLength(notice, "notice")
		if err != nil && !cordonOnly {
			return err
		}
		edits.SetDrain(config, id, length, cordonOnly, reason)
		return nil
	})
	return p, nil
}

func (v *visit) askUndrain(form url.Values) (*actionPage, error) {
	about, err := v.subjectOf(form, "ClusterAdvertisement")
	if err != nil {
		return nil, err
	}
	id := v.snapshot.Broker.FindCluster(about).Spec.ClusterID
	return &actionPage{
		Question: "Let " + id + " provide again? What has moved does not come back.", Button: "End the drain", command: "kubectl broker undrain " + quoteWord(id), about: about,
		run: changeConfig(func(config *brokerv1alpha1.BrokerConfig) error { edits.EndDrain(config, id); return nil }),
	}, nil
}
