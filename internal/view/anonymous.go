package view

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Pseudonyms replaces what identifies people and places in a report by names such as cluster-1. The same text always
// gets the same pseudonym, so that a report still tells who has to do with whom. The zero value knows no names.
type Pseudonyms struct {
	known  map[string]string
	counts map[string]int
	names  *regexp.Regexp
}

// identifying maps fields whose values identify something to the first part of their pseudonyms. Reservations keep
// their names, which are random.
var identifying = map[string]string{
	"clusterID": "cluster", "clusterName": "cluster", "requesterID": "cluster", "targetClusterID": "cluster", "requesterClusterID": "cluster",
	"includeClusters": "cluster", "excludeClusters": "cluster", "deniedClusters": "cluster", "approvedClusters": "cluster", "context": "cluster",
	"namespace": "namespace", "namespaces": "namespace", "name": "object", "requestedBy": "user",
	"region": "place", "regions": "place", "zone": "place", "zones": "place", "group": "group", "quote": "object",
}

// freeText are the fields with texts or keys of the user's choice. Reports leave them out.
var freeText = []string{"labels", "matchLabels", "matchExpressions", "nodeSelector", "nodeLabels", "clusterSelector", "claims", "requiredClaims", "data", "finalizers"}

// keptNames are names that every installation has.
var keptNames = []string{"default", "kube-system", "liqo", "liqo-resource-broker", "cluster-advertisement"}

// address matches URLs, IP addresses with or without a port, and host names with at least three parts.
var address = regexp.MustCompile(`https?://[^\s"',;)]+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[?[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{0,4}){4,7}\]?` +
	`|\[?(?:[0-9a-fA-F]{1,4}:)*[0-9a-fA-F]{0,4}::[0-9a-fA-F:]*\]?(?::\d+)?|\b(?:[a-z0-9-]+\.){2,}[a-z]{2,}\b(?:/|:\d+)?`)

// notHost matches what looks like a host name and is none: paths of fields, qualified names of resources, and API groups.
var notHost = regexp.MustCompile(`^(?:spec|status|metadata)\.|^[^/:]+/$|\.(?:fluidos\.eu|liqo\.io|k8s\.io|kubernetes\.io)$`)

// Learn gives a pseudonym to each name in a document that encoding/json or a YAML parser decoded.
func (p *Pseudonyms) Learn(document any) { p.learn("", document) }

func (p *Pseudonyms) learn(field string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			p.learn(key, v[key])
		}
	case []any:
		for _, item := range v {
			p.learn(field, item)
		}
	case string:
		if kind := identifying[field]; kind != "" {
			name, _, _ := strings.Cut(v, ", as reported by ")
			p.LearnName(kind, name)
		}
	}
}

// LearnName gives a pseudonym to a name, unless every installation has that name.
func (p *Pseudonyms) LearnName(kind, name string) {
	if name == "" || p.known[name] != "" || slices.Contains(keptNames, name) || strings.HasPrefix(name, "res-") {
		return
	}
	if p.known == nil {
		p.known, p.counts = map[string]string{}, map[string]int{}
	}
	p.counts[kind]++
	p.known[name], p.names = fmt.Sprintf("%s-%d", kind, p.counts[kind]), nil
}

// ReplaceText replaces all names that are known, and all addresses.
func (p *Pseudonyms) ReplaceText(text string) string {
	if p.names == nil && len(p.known) > 0 {
		quoted := make([]string, 0, len(p.known))
		for _, name := range slices.SortedFunc(maps.Keys(p.known), func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) }) {
			quoted = append(quoted, regexp.QuoteMeta(name))
		}
		p.names = regexp.MustCompile(`\b(?:` + strings.Join(quoted, "|") + `)\b`)
	}
	if p.names != nil { // before addresses, because names can contain host names
		text = p.names.ReplaceAllStringFunc(text, func(name string) string { return p.known[name] })
	}
	return address.ReplaceAllStringFunc(text, func(found string) string {
		if notHost.MatchString(found) {
			return found
		}
		return "ADDRESS"
	})
}

// Replace returns a copy of a document with pseudonyms in all its texts, and without the fields in freeText.
func (p *Pseudonyms) Replace(document any) any {
	switch v := document.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if !slices.Contains(freeText, key) {
				out[key] = p.Replace(value)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = p.Replace(item)
		}
		return out
	case string:
		return p.ReplaceText(v)
	}
	return document
}
