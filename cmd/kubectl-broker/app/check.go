package app

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
)

// leases maps broker and agent to the names of their leases for leader election.
var leases = map[string]string{"broker": "liqo-resource-broker", "agent": "liqo-resource-broker-agent"}

// crdsAdvice is the remedy for missing or outdated CRDs.
const crdsAdvice = "install the CRDs of the installed release: helm upgrade with crds.enabled=true"

func newCheckCommand(p *plugin) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the installation from outside, and print the remedy for each problem.",
		Long: `Checks API server, CRDs, leader and certificates with your rights, and changes
nothing. What only the cluster itself sees, such as listeners, webhooks, journal and
Liqo, is checked by helm test RELEASE, which runs broker check or agent check there.`,
		Example: `  kubectl broker check --context broker`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.connectSelected()
			if err != nil {
				return err
			}
			checks, err := c.buildChecks()
			if err != nil {
				return err
			}
			return checkup.Run(cmd.Context(), p.Out, checks)
		},
	}
}

func (c *connection) buildChecks() ([]checkup.Check, error) {
	published, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, err
	}
	checks := []checkup.Check{checkup.APIServer(published)}
	if c.broker {
		checks = append(checks, checkup.CRDs(published, brokerv1alpha1.GroupVersion, crdsAdvice, c.Scheme()), c.leaderCheck("broker"))
	}
	if c.member {
		checks = append(checks, checkup.CRDs(published, agentv1alpha1.GroupVersion, crdsAdvice, c.Scheme()), c.leaderCheck("agent"))
	}
	// The connection's RESTMapper does not know cert-manager's Certificates, so another client reads
	// them.
	mapped, err := client.New(c.config, client.Options{})
	if err != nil {
		return nil, err
	}
	return append(checks, checkup.Check{Subject: "certificates", Look: func(ctx context.Context) checkup.Finding {
		namespace, finding := c.findInstallation(ctx)
		if namespace == "" {
			return finding
		}
		return checkup.Certificates(mapped, namespace).Look(ctx)
	}}), nil
}

// leaderCheck returns a check that the leader of a process renews its lease. It looks for the lease
// in all namespaces, because the namespace of the installation is unknown.
func (c *connection) leaderCheck(process string) checkup.Check {
	return checkup.Check{Subject: "leader of the " + process + "s", Look: func(ctx context.Context) checkup.Finding {
		namespaces, err := c.findLeases(ctx, leases[process])
		switch {
		case isDenied(err):
			return checkup.Skip("you may not list leases: %v", err)
		case err != nil:
			return checkup.Fail("", "%v", err)
		case len(namespaces) == 0:
			return checkup.Skip("there is no lease %s: the %s runs without --leader-elect, or is not installed", leases[process], process)
		}
		lease := checkup.Lease{ObjectKey: client.ObjectKey{Namespace: namespaces[0], Name: leases[process]}, Process: process, Now: time.Now}
		return lease.Check(ctx, c, "it is gone")
	}}
}

func (c *connection) findLeases(ctx context.Context, name string) ([]string, error) {
	list := &coordinationv1.LeaseList{}
	if err := c.List(ctx, list, client.MatchingFields{"metadata.name": name}); err != nil {
		return nil, err
	}
	var namespaces []string
	for i := range list.Items {
		namespaces = append(namespaces, list.Items[i].Namespace)
	}
	return namespaces, nil
}

// findInstallation returns the namespace of the broker or agent. It finds the namespace by the
// lease for leader election in it. If it finds none, it returns "" and a finding with the reason.
func (c *connection) findInstallation(ctx context.Context) (string, checkup.Finding) {
	for process, name := range leases {
		if process == "broker" && !c.broker || process == "agent" && !c.member {
			continue
		}
		namespaces, err := c.findLeases(ctx, name)
		if err != nil {
			return "", checkup.Skip("you may not list leases, which say where the installation is: %v", err)
		}
		if len(namespaces) > 0 {
			return namespaces[0], checkup.Finding{}
		}
	}
	return "", checkup.Skip("no lease says in which namespace the installation is")
}
