package commands

import (
	"fmt"
	"slices"
	"strings"
)

// byTest maps the name of a test to the keys of the blocks that it runs, in this order. See Block.Matches.
var byTest = map[string][]string{
	"TestDocumentedInstallation": {
		"CONTRIBUTING.md: make",
		"README.md: make demo",
		"docs/install.md: make images",
		"docs/install.md:   --set service.type=NodePort",
		"docs/install.md: kubectl config use-context broker\nhelm",
		"docs/install.md: helm upgrade --install agent",
		"docs/install.md: kubectl --context broker --namespace liqo-resource-broker",
		"docs/install.md: # Two CAs",
		"docs/install.md: kubectl config use-context broker\nkubectl",
		"docs/install.md: kubectl config use-context rome\nkubectl",
		"charts/agent/README.md: helm install agent",
		"charts/agent/README.md: kubectl patch advertisement",
		"charts/broker/README.md: helm install broker",
		"docs/certificates.md: b=",
		"docs/kubernetes-transport.md: b=",
		"docs/without-an-agent.md: kubectl",
		"docs/upgrade.md: helm upgrade broker",
		"docs/upgrade.md: helm history",
		"docs/kubectl-broker.md: make install-plugin",
		"docs/kubectl-broker.md: kubectl broker why",
		"docs/troubleshooting.md: kubectl broker status",
		"docs/troubleshooting.md: kubectl broker bundle",
		"docs/costs.md: kubectl get",
		"docs/ending.md: kubectl get resourcerequest my-request -o jsonpath='{.status.conditions",
		"docs/lending.md: kubectl get lend",
		"docs/operations.md: kubectl --context rome apply",
		"docs/operations.md: kubectl --context broker -n $NS get",
		"docs/configuration.md: kubectl label node",
		"docs/networking.md: kubectl get",
		"docs/queue.md: kubectl get",
		"docs/offloading.md: kubectl label namespace",
		"docs/healing.md: kubectl annotate",
		"docs/reachability.md: kubectl",
		"docs/app-teams.md: kubectl patch resourcerequest my-request --type merge -p '{\"spec\":{\"release\"",
		"docs/upgrade.md: helm upgrade agent",
	},
	"TestDocumentedCommands": {
		"README.md: export KUBECONFIG",
		"docs/certificates.md: kubectl --namespace liqo-resource-broker exec",
		"docs/journal.md: NS=",
		"docs/journal.md: kubectl broker audit log",
		"docs/kubectl-broker.md: kubectl broker top --at",
		"docs/kubectl-broker.md: kubectl broker plan demand",
		"docs/journal.md: kubectl broker audit verify --context",
		"docs/install.md: kubectl --context broker get",
		"docs/app-teams.md: kubectl apply --dry-run",
		"docs/app-teams.md: kubectl wait",
		"docs/receipts.md: kubectl broker audit receipt my-request",
		"docs/app-teams.md: kubectl patch resourcerequest my-request --type merge -p '{\"spec\":{\"duration\"",
		"docs/offloading.md: kubectl wait",
		"docs/configuration.md: agent check",
		"docs/install.md: kubectl --context rome create",
	},
	"TestForgottenClusterReturns": {
		"docs/healing.md: kubectl -n liqo-resource-broker exec",
		"docs/operations.md: kubectl --context broker -n $NS exec",
	},
}

// byHand maps the keys of the blocks that no test runs to the reason.
var byHand = map[string]string{
	"docs/install.md: kubectl config use-context rome\nliqoctl": "liqoctl downloads Liqo's chart, whose pods need a registry",
	"docs/install.md: identity=":                                "needs the signatures of a release",
	"docs/accounting.md: kubectl broker cost":                   "needs a broker that has run until the end of a month; scripts of cmd/kubectl-broker run the same commands",
	"docs/accounting.md: NS=":                                   "needs a broker that has run until the end of a month",
	"docs/receipts.md: kubectl broker audit receipt --file":     "needs the CA from the Secret of an agent; TestCommandsOnAPIServers runs it with its own",
	"docs/console.md: kubectl broker console":                   "runs until it is interrupted; TestCommandsOnAPIServers opens it",
	"hack/gitops/README.md":                                     "needs Argo CD and a repository",
}

// Of returns the blocks that a test runs, in the order of byTest.
func Of(root, test string) ([]Block, error) {
	blocks, err := Read(root)
	if err != nil {
		return nil, err
	}
	var out []Block
	for _, key := range byTest[test] {
		i := slices.IndexFunc(blocks, func(b Block) bool { return b.Matches(key) })
		if i < 0 {
			return nil, fmt.Errorf("no page has the block %q of %s: correct it in e2e/commands/plan.go", key, test)
		}
		out = append(out, blocks[i])
	}
	return out, nil
}

// Tests returns the names of the tests that run blocks, sorted.
func Tests() []string {
	var names []string
	for name := range byTest {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Check returns the mistakes in byTest and byHand: blocks that no key or more than one key matches, and keys that
// match no block.
func Check(blocks []Block) []string {
	var problems []string
	uses := map[string]int{}
	for _, b := range blocks {
		var entries []string
		for _, key := range keys() {
			if b.Matches(key) {
				entries = append(entries, key)
				uses[key]++
			}
		}
		switch {
		case len(entries) == 0:
			problems = append(problems, fmt.Sprintf("no test runs the block %s, which begins with %q: add it to e2e/commands/plan.go", b, firstLine(b.Script)))
		case len(entries) > 1:
			problems = append(problems, fmt.Sprintf("%d entries of e2e/commands/plan.go name the block %s: %q", len(entries), b, entries))
		}
	}
	for _, key := range keys() {
		whole := !strings.Contains(key, ": ") // every block of a page
		if uses[key] == 0 || uses[key] > 1 && !whole {
			problems = append(problems, fmt.Sprintf("e2e/commands/plan.go has %q, which %d blocks match: name one", key, uses[key]))
		}
	}
	return problems
}

func keys() []string {
	var out []string
	for _, blocks := range byTest {
		out = append(out, blocks...)
	}
	for key := range byHand {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

func firstLine(script string) string {
	line, _, _ := strings.Cut(script, "\n")
	return line
}
