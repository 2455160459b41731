package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// ExcessMessage returns a message for a consumer whose pods exceed what was granted: how many
// of them the provider evicted, and the remedy. The provider reports an excess before it
// evicts pods, so the first report counts none.
func ExcessMessage(provider string, x *agentv1alpha1.Excess) string {
	beyond := make([]string, 0, len(x.Resources))
	for _, name := range slices.Sorted(maps.Keys(x.Resources)) {
		q := x.Resources[name]
		beyond = append(beyond, fmt.Sprintf("%s of %s", q.String(), name))
	}
	text := fmt.Sprintf("%q evicts pods that exceed what was granted", provider)
	if x.Pods > 0 {
		text = fmt.Sprintf("%q evicted %d pods that exceeded what was granted", provider, x.Pods)
	}
	if len(beyond) > 0 {
		text += " by " + strings.Join(beyond, ", ")
	}
	return text + ": run no more than is granted, or ask for more; after several such reports the broker refuses new requests for a while"
}
