package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Configure changes the configuration under which the broker decides. The actor of its event is the
// administrator who changed it, or "" if the configuration changed because a new version of the
// broker has other defaults.
type Configure struct {
	// Difference is a JSON merge patch (RFC 7396) from the former configuration to the new one. The
	// ledger only stores the result.
	Difference json.RawMessage `json:"difference,omitempty"`
	Ceilings
}

// Ceilings are the administrator's limits on the over-subscription ratios that clusters offer.
type Ceilings struct {
	OverSubscription quantity.Ratios `json:"overSubscription,omitempty"`
}

// Configuration is the broker's configuration as recorded in the journal.
type Configuration struct {
	// Document is the configuration as a JSON object, nil before the first Configure. It is
	// replaced, never modified.
	Document json.RawMessage `json:"document,omitempty"`
	Ceilings
}

func (c *Configuration) check() error {
	if err := c.OverSubscription.Check(); err != nil {
		return fmt.Errorf("%w: ceilings: %w", ErrMalformed, err)
	}
	_, err := readObject(c.Document)
	return err
}

// IsZero reports whether no configuration was recorded yet.
func (c Configuration) IsZero() bool { return c.Document == nil && c.OverSubscription == nil }

// Configuration returns the configuration in the book. The caller must not change it.
func (s *State) Configuration() *Configuration { return &s.clusters.configuration }

// InForce reports whether the book has this document and these ceilings. A nil document is not
// compared.
func (c *Configuration) InForce(document json.RawMessage, ceilings quantity.Ratios) bool {
	return (document == nil || bytes.Equal(document, c.Document)) && maps.Equal(c.OverSubscription, ceilings)
}

// maxDifference is the size in bytes of the largest difference, so that its event fits in a record.
const maxDifference = 32 << 10

// DifferencesTo returns merge patches that change the recorded document into the given one when
// they are applied in order. Each is small enough for one event, see splitPatch. It returns none if
// the documents are equal or the given one is nil. Documents must not contain null.
func (c *Configuration) DifferencesTo(document json.RawMessage) ([]json.RawMessage, error) {
	if document == nil || bytes.Equal(document, c.Document) {
		return nil, nil
	}
	before, err := readObject(c.Document)
	if err != nil {
		return nil, err
	}
	after, err := readObject(document)
	if err != nil {
		return nil, err
	}
	var out []json.RawMessage
	for _, part := range splitPatch(differenceOf(before, after)) {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("encoding a change of the configuration: %w", err)
		}
		out = append(out, text)
	}
	return out, nil
}

// readObject decodes a JSON object; nil gives an empty one. Numbers keep their digits exactly.
func readObject(text json.RawMessage) (map[string]any, error) {
	out := map[string]any{}
	if len(text) == 0 {
		return out, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		return nil, fmt.Errorf("%w: the configuration is no JSON object: %w", ErrMalformed, err)
	}
	if out == nil {
		return nil, fmt.Errorf("%w: the configuration is null", ErrMalformed)
	}
	return out, nil
}

// differenceOf returns the merge patch that changes the object in before to the object in after.
func differenceOf(before, after map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range after {
		was, known := before[key]
		if known && reflect.DeepEqual(was, value) {
			continue
		}
		old, wasObject := was.(map[string]any)
		if object, isObject := value.(map[string]any); isObject && wasObject {
			value = differenceOf(old, object)
		}
		out[key] = value
	}
	for key := range before {
		if _, kept := after[key]; !kept {
			out[key] = nil
		}
	}
	return out
}

// splitPatch splits a merge patch into parts of about maxDifference bytes at most. It splits only the
// objects at the top level: they contain the lists of clusters, which are by far the largest values.
// A larger value that it does not split gets a part of its own.
func splitPatch(patch map[string]any) []map[string]any {
	out := []map[string]any{{}}
	size := 0
	add := func(key string, value any, into func(part map[string]any)) {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // cannot happen: the value was decoded from JSON
		}
		if size += len(key) + len(text); size > maxDifference && len(out[len(out)-1]) > 0 {
			out, size = append(out, map[string]any{}), len(key)+len(text)
		}
		into(out[len(out)-1])
	}
	for _, key := range slices.Sorted(maps.Keys(patch)) {
		object, isObject := patch[key].(map[string]any)
		if !isObject || len(object) == 0 {
			add(key, patch[key], func(part map[string]any) { part[key] = patch[key] })
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			add(key+name, object[name], func(part map[string]any) {
				within, begun := part[key].(map[string]any)
				if !begun {
					within = map[string]any{}
					part[key] = within
				}
				within[name] = object[name]
			})
		}
	}
	return out
}

func mergePatch(object, patch map[string]any) {
	for key, value := range patch {
		change, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case isObject:
			within, wasObject := object[key].(map[string]any)
			if !wasObject {
				within = map[string]any{}
				object[key] = within
			}
			mergePatch(within, change)
		default:
			object[key] = value
		}
	}
}

func (*Configure) subject() string { return "" }

func (c *Configure) checkAgainst(*State) error {
	changed := Configuration{c.Difference, c.Ceilings}
	return changed.check()
}

func (c *Configure) applyTo(s *State, _ time.Time) {
	s.clusters.configuration.applyPatch(c)
	for _, cluster := range s.clusters.byID {
		cluster.stretch = s.clusters.stretchOf(&cluster.Offer)
	}
}

// applyPatch applies a change that checkAgainst has allowed. It replaces the document and does not
// modify the former one, which may still be in use.
func (c *Configuration) applyPatch(change *Configure) {
	c.Ceilings = change.Ceilings
	if len(change.Difference) == 0 {
		return
	}
	object, _ := readObject(c.Document) // cannot fail: this package wrote the document
	patch, _ := readObject(change.Difference)
	mergePatch(object, patch)
	document, err := json.Marshal(object)
	if err != nil {
		panic(err) // cannot happen: the value was decoded from JSON
	}
	c.Document = document
}

// LendableOf returns what Lendable would return for a cluster with this offer.
func (s *State) LendableOf(o *Offer) quantity.Amounts {
	return o.Allocatable.Stretched(s.clusters.stretchOf(o))
}

// Stretch returns how many times each of the cluster's resources may be promised.
func (c *Cluster) Stretch() quantity.Ratios { return c.stretch }

// Lendable returns the total amounts that may be promised on the cluster: to its own pods and to
// reservations together.
func (c *Cluster) Lendable() quantity.Amounts { return c.Allocatable.Stretched(c.stretch) }

func (cs *clusters) stretchOf(o *Offer) quantity.Ratios {
	return o.OverSubscription.Within(cs.configuration.OverSubscription)
}
