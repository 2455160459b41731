package app

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/costs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// consoleJournal reads and replays the journal for the console with the user's rights, when the user opens a page about
// it. Its pages show what the commands cost, audit, plan and status --at show.
type consoleJournal struct {
	*plugin
	connection *connection
	accounts   recent[*replay.Accounts]
	audited    recent[*auditedJournal]
	plan       recent[*view.Plan]
	past       recent[*view.Snapshot]
}

var _ console.Journal = (*consoleJournal)(nil)

// journalShown is how long the console shows what it has read of the journal. Reading it again takes seconds for a large
// broker, and could change the rows while the user turns pages.
const journalShown = time.Minute

// recent is the last value that was read. The lock lets one request read at a time, because a replay of a large broker
// needs much memory.
type recent[T any] struct {
	sync.Mutex
	asked  string
	value  T
	readAt time.Time
}

// lookUp returns the last value if it answers the same question and is younger than journalShown. Otherwise it reads
// another one. The caller must hold the lock.
func (r *recent[T]) lookUp(asked string, now func() time.Time, read func() (T, error)) (T, error) {
	if !r.readAt.IsZero() && r.asked == asked && now().Sub(r.readAt) < journalShown {
		return r.value, nil
	}
	value, err := read()
	if err == nil {
		r.asked, r.value, r.readAt = asked, value, now()
	}
	return value, err
}

// readAccounts returns the accounts. The caller must hold their lock.
func (j *consoleJournal) readAccounts(ctx context.Context) (*replay.Accounts, error) {
	return j.accounts.lookUp("", j.now, func() (*replay.Accounts, error) { return j.connection.openAccounts(ctx, defaultJournal) })
}

// Cost implements console.CostSource.
func (j *consoleJournal) Cost(ctx context.Context, q console.CostQuery) (*view.Cost, error) {
	span, err := spanOf(q)
	if err != nil {
		return nil, err
	}
	by, err := costs.ParseGroup(q.By, costs.Groups, "a broker")
	if err != nil {
		return nil, fmt.Errorf("by %w", err)
	}
	j.accounts.Lock()
	defer j.accounts.Unlock()
	read, err := j.readAccounts(ctx)
	if err != nil {
		return nil, err
	}
	return costs.Read(ctx, read, span, by)
}

// Focus implements console.CostSource.
func (j *consoleJournal) Focus(ctx context.Context, q console.CostQuery) ([]byte, error) {
	span, err := spanOf(q)
	if err != nil {
		return nil, err
	}
	j.accounts.Lock()
	defer j.accounts.Unlock()
	read, err := j.readAccounts(ctx)
	if err != nil {
		return nil, err
	}
	focus, err := costs.ReadFocus(ctx, read, span)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = focus.Write(&out)
	return out.Bytes(), err
}

// spanOf parses the time of a query. It returns an error if the time does not begin and end with a period of
// the query.
func spanOf(q console.CostQuery) (span costs.Span, err error) {
	if span.Period, err = costs.ParsePeriod(q.Period); err != nil {
		return span, fmt.Errorf("period %w", err)
	}
	if span.From, err = costs.ParseHour(q.From); err != nil {
		return span, fmt.Errorf("from: %w", err)
	}
	if span.To, err = costs.ParseHour(q.To); err != nil {
		return span, fmt.Errorf("to: %w", err)
	}
	if !span.IsBegin(span.From) || !span.IsBegin(span.To) {
		return span, fmt.Errorf("rows for each %s need times at which a %s begins", q.Period, q.Period)
	}
	return span, nil
}

// auditedJournal is what was read of the journal at one time.
type auditedJournal struct {
	kept     *journal.Kept
	records  []trail.Record
	findings []view.Finding
}

// readAudited reads and verifies the journal. The caller must hold the lock.
func (j *consoleJournal) readAudited(ctx context.Context) (*auditedJournal, error) {
	return j.audited.lookUp("", j.now, func() (_ *auditedJournal, err error) {
		read := &auditedJournal{}
		if read.kept, read.records, err = j.connection.readTrail(ctx, j.connection.store, defaultJournal, j.connection.journalNamespace()); err != nil {
			return nil, err
		}
		o := &auditOptions{journal: defaultJournal, retention: defaultRetention}
		if read.findings, err = verifyStored(ctx, j.connection.store, o, nil, j.now()); err != nil {
			return nil, j.connection.explainJournal(defaultJournal, j.connection.journalNamespace(), err)
		}
		return read, nil
	})
}

// Log implements console.AuditSource.
func (j *consoleJournal) Log(ctx context.Context, q console.AuditQuery) (*console.AuditLog, error) {
	o, err := optionsOf(q, j.now())
	if err != nil {
		return nil, err
	}
	j.audited.Lock()
	defer j.audited.Unlock()
	read, err := j.readAudited(ctx)
	if err != nil {
		return nil, err
	}
	out := &console.AuditLog{Kinds: recordKinds(), Findings: read.findings, ReadAt: j.audited.readAt}
	if !q.Ended {
		out.Table = (&auditLog{Items: o.filter.Select(read.records)}).toTable()
		return out, nil
	}
	ended, err := replay.ReadEnded(ctx, j.connection.store, defaultJournal)
	if err != nil {
		return nil, err
	}
	if ended.Missing != "" {
		out.Findings = append(slices.Clone(out.Findings), view.Finding{Level: view.Failure, Text: "not shown: older reservations: " + ended.Missing})
	}
	out.Table = (&endedLog{Items: o.filter.SelectEnded(trail.DescribeEnded(ended.Rows))}).toTable()
	return out, nil
}

// Export implements console.AuditSource.
func (j *consoleJournal) Export(ctx context.Context, q console.AuditQuery) ([]byte, error) {
	o, err := optionsOf(q, j.now())
	if err != nil {
		return nil, err
	}
	j.audited.Lock()
	defer j.audited.Unlock()
	read, err := j.readAudited(ctx)
	if err != nil {
		return nil, err
	}
	heads, err := replay.ReadHeads(ctx, j.connection.store, defaultJournal)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, err = trail.WriteExport(&out, read.kept.ID, o.filter.Within(read.records), j.now(), heads)
	return out.Bytes(), err
}

// optionsOf reads a query as the flags of audit log.
func optionsOf(q console.AuditQuery, now time.Time) (*logOptions, error) {
	o := &logOptions{since: q.Since, until: q.Until, filter: trail.Filter{Actor: q.Actor, Cluster: q.Cluster, Reservation: q.Reservation}}
	if q.Kind != "" {
		o.filter.Kinds = strings.Split(q.Kind, ",")
	}
	if err := o.parseTimes(now); err != nil {
		return nil, err
	}
	if q.Ended {
		return o, o.checkEnded()
	}
	return o, checkKinds(o.filter.Kinds)
}

// At implements console.PastSource.
func (j *consoleJournal) At(ctx context.Context, text string) (*view.Snapshot, error) {
	j.past.Lock()
	defer j.past.Unlock()
	return j.past.lookUp(text, j.now, func() (*view.Snapshot, error) {
		o := &pastOptions{at: text, journal: defaultJournal, namespace: j.connection.journalNamespace()}
		return j.gatherAt(ctx, j.connection, o, j.connection.scopeNamespace(), whole)
	})
}

// Plan implements console.PlanSource. It runs the command of the question, without printing.
func (j *consoleJournal) Plan(ctx context.Context, q console.PlanQuery) (*view.Plan, error) {
	j.plan.Lock()
	defer j.plan.Unlock()
	return j.plan.lookUp(fmt.Sprint(q), j.now, func() (*view.Plan, error) { // fmt sorts the keys of maps
		create, known := planners[q.Change]
		if !known {
			return nil, fmt.Errorf("there is no plan %q: choose one of %s", q.Change, strings.Join(slices.Sorted(maps.Keys(planners)), ", "))
		}
		command := create(j.plugin)
		for _, name := range slices.Sorted(maps.Keys(q.Flags)) {
			if err := command.Flags().Set(name, q.Flags[name]); err != nil {
				return nil, err
			}
		}
		return command.makePlan(ctx, []string{q.Cluster})
	})
}
