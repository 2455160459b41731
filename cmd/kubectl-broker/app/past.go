package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/clusteradvertisement"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/reservation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// pastOptions are the flags that make a command show the past of a broker's cluster.
type pastOptions struct {
	// at is the value of --at: a time, or a position of the journal; "" for the present.
	at string
	// journal and namespace say which journal is replayed.
	journal, namespace string
}

func addPastFlags(cmd *cobra.Command) *pastOptions {
	o := &pastOptions{}
	cmd.Flags().StringVar(&o.at, "at", "", "show the broker's cluster as it was: how long ago, such as 2h, an RFC 3339 time, or a position of the journal")
	addJournalFlag(cmd.Flags(), &o.journal)
	cmd.Flags().StringVar(&o.namespace, "journal-namespace", defaultNamespace, "namespace of the journal, for --at")
	return o
}

// checkFlags returns an error if --at is combined with --watch (the parameter again) or with
// --also.
func (o *pastOptions) checkFlags(again bool, also []string) error {
	switch {
	case o.at == "":
		return nil
	case again:
		return newUsageError("--at shows one time of the past: leave out --watch")
	case len(also) > 0:
		return newUsageError("--at shows the broker's journal, which has no part of other clusters: leave out --also")
	}
	return nil
}

// gatherAt returns a snapshot of the cluster as it is, or as it was if --at is set.
func (p *plugin) gatherAt(ctx context.Context, c *connection, o *pastOptions, namespace string, depth depth) (*view.Snapshot, error) {
	if o.at == "" {
		return c.gatherObjects(ctx, namespace, p.now(), depth)
	}
	if !c.broker {
		return nil, newUsageError("%s is a member, and only the broker's cluster has a journal: choose its --context", c.describeRoles())
	}
	store, err := journal.NewConfigMaps(c.config, o.namespace)
	if err != nil {
		return nil, err
	}
	kept, records, err := c.readTrail(ctx, store, o.journal, o.namespace)
	if err != nil {
		return nil, err
	}
	position, at, err := findPosition(o.at, records, p.now())
	if err != nil {
		return nil, err
	}
	past, err := replayUntil(ctx, kept, position, at)
	if err != nil {
		return nil, err
	}
	s := &view.Snapshot{Context: c.context, Flags: c.flags, At: at, Gaps: unrecorded, Record: position}
	s.Broker, err = showPast(ctx, past, o.namespace, namespace)
	return s, err
}

// findPosition returns the position up to which to replay, and the time to show. text is the value
// of --at. If it is a time, the position is the one of the last record at or before that time. If
// it is a position, the time is the one of the last record up to it that has a time.
func findPosition(text string, records []trail.Record, now time.Time) (uint64, time.Time, error) {
	first, last := records[0].Position, records[len(records)-1].Position
	if position, err := strconv.ParseUint(text, 10, 64); err == nil {
		if position < first || position > last {
			return 0, time.Time{}, fmt.Errorf("--at: the journal keeps the records %d to %d", first, last)
		}
		at := time.Time{}
		for i := range records {
			if records[i].Position <= position && !records[i].Time.IsZero() {
				at = records[i].Time
			}
		}
		return position, at, nil
	}
	at, err := parseTime(text, now)
	if err != nil {
		return 0, time.Time{}, newUsageError("--at: %w; or write a position of the journal", err)
	}
	if at.After(now) {
		return 0, time.Time{}, newUsageError("--at: %s is in the future", at.UTC().Format(time.RFC3339))
	}
	oldest := "it has none"
	for i := range slices.Backward(records) {
		switch r := &records[i]; {
		case r.Time.IsZero():
		case !r.Time.After(at):
			return r.Position, at, nil
		default:
			oldest = "the oldest that is kept is of " + r.Time.UTC().Format(time.RFC3339)
		}
	}
	return 0, time.Time{}, fmt.Errorf("--at: the journal has no record of %s: %s", at.UTC().Format(time.RFC3339), oldest)
}

func replayUntil(ctx context.Context, kept *journal.Kept, position uint64, at time.Time) (*broker.Past, error) {
	base, from, err := kept.BaseAt(ctx, position)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, fmt.Errorf("--at: record %d is kept, and no checkpoint before it from which it could be replayed: choose a later time: %w", position, err)
	}
	if err != nil {
		return nil, err
	}
	recovery := journal.Recovery{ID: kept.ID, Checkpoint: base, CheckpointPosition: from}
	for _, e := range kept.Entries {
		if e.Kind == "record" && e.Position > from && e.Position <= position {
			recovery.Records = append(recovery.Records, journal.Record{Position: e.Position, Data: e.Data})
		}
	}
	return broker.NewPast(recovery, at, specs.ReadDocument)
}

// unrecorded lists what a replay of the journal cannot know.
var unrecorded = []view.Gap{
	{Kind: view.Unrecorded, Resource: "since when a condition held", Message: "the last recorded change is taken"},
	{Kind: view.Unrecorded, Resource: "what agents report without a record", Message: "small changes of offers and use, silence of clusters that provide nothing, reachability"},
	{Kind: view.Unrecorded, Resource: "when someone deleted an ended Reservation", Message: "it is shown until the broker forgot it"},
	{Kind: view.Unrecorded, Resource: "events, refused Reservations and the BrokerConfig with its pending enrolments"},
}

// showPast returns the objects of a namespace as a broker that runs in the namespace home would
// have shown them. namespace is "" for all namespaces.
func showPast(ctx context.Context, past *broker.Past, home, namespace string) (*view.BrokerObjects, error) {
	b := &view.BrokerObjects{}
	isShown := func(obj client.Object) bool { return namespace == "" || namespace == obj.GetNamespace() }
	clusters, err := past.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range clusters {
		if obj := clusteradvertisement.Show(v, home, v.Heard); isShown(obj) {
			b.Clusters = append(b.Clusters, obj)
		}
	}
	for _, v := range past.Reservations() {
		if obj := reservation.Show(v, home, past.ChangedAt(v)); obj != nil && isShown(obj) {
			b.Reservations = append(b.Reservations, obj)
		}
	}
	return b, nil
}
