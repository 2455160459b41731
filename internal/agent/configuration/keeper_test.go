package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// desk is a Keeper and its file.
type desk struct {
	*testing.T
	*Keeper
	path string
	said []string
}

func newDesk(t *testing.T, text string) *desk {
	d := &desk{T: t, path: filepath.Join(t.TempDir(), "agent.yaml")}
	d.write(text)
	log := funcr.New(func(_, args string) { d.said = append(d.said, args) }, funcr.Options{})
	keeper, err := Open(d.path, nil, clocktesting.NewFakeClock(time.Unix(0, 0)), log)
	runtest.Check(t, err)
	d.Keeper = keeper
	<-d.Changed()
	return d
}

func (d *desk) write(text string) {
	d.Helper()
	runtest.Check(d, os.WriteFile(d.path, []byte(text), 0o600))
}

// expect reads the file again, and compares the region in force, whether a change is announced, and
// the problem.
func (d *desk) expect(region string, told bool, problem string) {
	d.Helper()
	d.reloadFile()
	if got := d.Current().Region; got != region {
		d.Errorf("region %q is in force, want %q", got, region)
	}
	got := false
	select {
	case <-d.Changed():
		got = true
	default:
	}
	if got != told {
		d.Errorf("somebody was told: %t, want %t", got, told)
	}
	if err := d.Problem(); (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
		d.Errorf("problem %v, want %q", err, problem)
	}
}

func region(name string) string { return head + "cluster: {region: " + name + "}\n" }

func TestKeeperAppliesValidEditsOnly(t *testing.T) {
	d := newDesk(t, region("one"))
	var applied []string
	d.Follow(func(c *Configuration) { applied = append(applied, c.Region) })
	d.expect("one", false, "")

	d.write(region("two"))
	d.expect("two", true, "")
	d.expect("two", false, "")

	d.write(region("[three]"))
	d.expect("two", true, "line 3")
	said := len(d.said)
	d.expect("two", false, "line 3")
	if len(d.said) != said {
		t.Errorf("it says again: %q", d.said[said:])
	}
	d.write(region("' '"))
	d.expect("two", true, "cluster.region")

	runtest.Check(t, os.Remove(d.path))
	d.expect("two", true, "no such file")
	d.expect("two", false, "no such file")

	// Restoring the previous content is only announced because the problem is gone.
	d.write(region("two"))
	d.expect("two", true, "")
	d.write(region("four"))
	d.expect("four", true, "")
	if got := strings.Join(applied, " "); got != "one two two four" {
		t.Errorf("applied %s", got)
	}
	if !strings.Contains(strings.Join(d.said, "\n"), "the previous one stays in force") {
		t.Errorf("the log says %q", d.said)
	}
}

func TestKeeperRereadsPriceFile(t *testing.T) {
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	price := func(text string) {
		t.Helper()
		runtest.Check(t, os.WriteFile(prices, []byte("currency: EUR\ncpuCost: "+text+"\n"), 0o600))
	}
	price("1")
	d := newDesk(t, region("one")+"prices: {file: "+prices+"}\n")
	d.expect("one", false, "")
	price("2")
	d.expect("one", true, "")
	if got := d.Current().Prices.CPUCost; got != "2" {
		t.Errorf("price %q, want 2", got)
	}
	price("cheap")
	d.expect("one", true, "cpuCost")
	if got := d.Current().Prices.CPUCost; got != "2" {
		t.Errorf("price %q, want 2 still", got)
	}
	price("2")
	d.expect("one", true, "")
}

func TestOpenRefusesInvalidFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	if _, err := Open(path, nil, clock, logr.Discard()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a file: %v", err)
	}
	runtest.Check(t, os.WriteFile(path, []byte(head+"shares: 1\n"), 0o600))
	if _, err := Open(path, nil, clock, logr.Discard()); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("with a bad one: %v", err)
	}
}
