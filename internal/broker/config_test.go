package broker

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// configurations returns a line for each change of the configuration in the journal, oldest first:
// actor, difference and over-subscription.
func (f *fleet) configurations() []string {
	f.t.Helper()
	out := []string{}
	f.inSession(func(s *session) {
		if s.last == nil {
			return // this session has recorded nothing
		}
		runtest.Check(f.t, s.last.Wait(f.t.Context()))
	})
	_, recovery, err := journal.Follow(f.t.Context(), f.store, JournalName, journal.Options{})
	runtest.Check(f.t, err)
	for _, r := range recovery.Records {
		var e ledger.Event
		runtest.Check(f.t, json.Unmarshal(r.Data, &e))
		if c, ok := e.Change.(*ledger.Configure); ok {
			out = append(out, fmt.Sprintf("%s %s %v", e.By, c.Difference, c.OverSubscription.Texts()))
		}
	}
	return out
}

// documentedAs returns a function that marks a configuration as written by bob. document is its
// form in the journal.
func documentedAs(document string, generation int64) func(*settings.Config) {
	return func(c *settings.Config) {
		c.Document, c.Generation, c.By = json.RawMessage(document), generation, ledger.Administrator("bob")
	}
}

func TestConfigurationIsJournaledWhenItChanges(t *testing.T) {
	inFleet(t, func(f *fleet) {
		want := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(append([]string{}, want...), f.configurations()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		want("without a document")
		first, second := `{"generation":1,"headroom":5,"queue":{"maxLength":7}}`, `{"generation":2,"queue":{"maxLength":8}}`
		f.set(documentedAs(first, 1))
		f.set(documentedAs(first, 1))
		records := []string{"bob " + first + " map[]"}
		want("set twice", records...)

		f.set(documentedAs(second, 2))
		records = append(records, `bob {"generation":2,"headroom":null,"queue":{"maxLength":8}} map[]`)
		want("edited", records...)

		f.kill()
		f.set(documentedAs(second, 2))
		want("set again by another process", records...)

		f.set(documentedAs(`{"generation":2,"grace":"1m","queue":{"maxLength":8}}`, 2))
		records = append(records, ` {"grace":"1m"} map[]`)
		want("with another default of the same generation", records...)

		f.set(func(c *settings.Config) { c.OverSubscription = quantity.Ratios{"cpu": 150} })
		records = append(records, `  map[cpu:1.5]`)
		want("with other ceilings alone", records...)
	})
}
