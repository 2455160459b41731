package app

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// consoleAudit reads and verifies the journal for the console with the user's rights, when the user opens the page Audit.
type consoleAudit struct {
	connection *connection
	now        func() time.Time

	mu     sync.Mutex
	read   *auditedJournal
	readAt time.Time
}

// auditedJournal is what was read of the journal at one time.
type auditedJournal struct {
	store    journal.Store
	kept     *journal.Kept
	records  []trail.Record
	findings []view.Finding
}

var _ console.AuditSource = (*consoleAudit)(nil)

// readJournal reads and verifies the journal, or returns what it has read less than
// journalShown ago. The caller must hold mu.
func (a *consoleAudit) readJournal(ctx context.Context) (*auditedJournal, error) {
	if a.read != nil && a.now().Sub(a.readAt) < journalShown {
		return a.read, nil
	}
	read := &auditedJournal{}
	var err error
	if read.store, read.kept, read.records, err = a.connection.readTrail(ctx, defaultJournal); err != nil {
		return nil, err
	}
	o := &auditOptions{journal: defaultJournal, retention: defaultRetention}
	if read.findings, err = verifyStored(ctx, read.store, o, nil, a.now()); err != nil {
		return nil, a.connection.explainJournal(defaultJournal, a.connection.journalNamespace(), err)
	}
	a.read, a.readAt = read, a.now()
	return read, nil
}

// Log implements console.AuditSource.
func (a *consoleAudit) Log(ctx context.Context, q console.AuditQuery) (*console.AuditLog, error) {
	o, err := optionsOf(q, a.now())
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	read, err := a.readJournal(ctx)
	if err != nil {
		return nil, err
	}
	out := &console.AuditLog{Kinds: recordKinds(), Findings: read.findings, ReadAt: a.readAt}
	if q.Ended {
		ended, err := replay.ReadEnded(ctx, read.store, defaultJournal)
		if err != nil {
			return nil, err
		}
		if ended.Missing != "" {
			out.Findings = append(slices.Clone(out.Findings), view.Finding{Level: view.Failure, Text: "not shown: older reservations: " + ended.Missing})
		}
		out.Table = (&endedLog{Items: o.filter.SelectEnded(trail.DescribeEnded(ended.Rows))}).toTable()
		return out, nil
	}
	out.Table = (&auditLog{Items: o.filter.Select(read.records)}).toTable()
	return out, nil
}

// Export implements console.AuditSource.
func (a *consoleAudit) Export(ctx context.Context, q console.AuditQuery) ([]byte, error) {
	o, err := optionsOf(q, a.now())
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	read, err := a.readJournal(ctx)
	if err != nil {
		return nil, err
	}
	heads, err := replay.ReadHeads(ctx, read.store, defaultJournal)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, err = trail.WriteExport(&out, read.kept.ID, o.filter.Within(read.records), a.now(), heads)
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
