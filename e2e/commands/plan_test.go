package commands

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestBlocksAreRead(t *testing.T) {
	page := strings.ReplaceAll("Text\n"+
		"'''sh\nkubectl get pods\nhelm list\n'''\n"+
		"- in a list\n\n  '''sh\n  kubectl apply -f - <<END\n    a: b\n  END\n  '''\n"+
		"'''console\n$ kubectl get a\noutput\n$ kubectl get b\n'''\n"+
		"'''yaml\na: b\n'''\n", "'''", "```")
	got, err := parse("p.md", page)
	runtest.Check(t, err)
	want := []Block{
		{Page: "p.md", Line: 2, Script: "kubectl get pods\nhelm list\n"},
		{Page: "p.md", Line: 8, Script: "kubectl apply -f - <<END\n  a: b\nEND\n"},
		{Page: "p.md", Line: 13, Script: "kubectl get a\nkubectl get b\n"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if _, err := parse("p.md", "```sh\n"); err == nil {
		t.Error("a block without an end is accepted")
	}
}

func TestMissingAndUnknownBlocksAreFound(t *testing.T) {
	blocks, err := Read("../..")
	runtest.Check(t, err)
	if problems := Check(blocks); len(problems) > 0 {
		t.Fatal(strings.Join(problems, "\n"))
	}
	added := append(blocks, Block{Page: "docs/queue.md", Line: 1, Script: "kubectl drain node\n"})
	if problems := Check(added); len(problems) != 1 || !strings.Contains(problems[0], `no test runs the block docs/queue.md:1`) {
		t.Errorf("a new block: %q", problems)
	}
	if problems := Check(blocks[1:]); len(problems) != 1 || !strings.Contains(problems[0], "which 0 blocks match") {
		t.Errorf("a block that is gone: %q", problems)
	}
	if problems := Check(append(blocks, blocks[0])); len(problems) != 1 || !strings.Contains(problems[0], "which 2 blocks match") {
		t.Errorf("two blocks that begin alike: %q", problems)
	}
}
