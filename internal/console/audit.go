package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// AuditQuery says which records of the journal a page shows, as the user typed it. "" does not restrict them.
type AuditQuery struct {
	Since, Until, Actor, Cluster, Reservation, Kind string
	// Ended selects the reservations that have ended instead of records.
	Ended bool
}

// AuditLog is the content of the page about the journal: the selected records, and the result of verifying the whole
// journal.
type AuditLog struct {
	// Table is what kubectl broker audit log prints for the query, the oldest row first.
	Table view.Table
	// Kinds are all kinds of records.
	Kinds []string
	// Findings are those that the command "kubectl broker audit verify" would print for the whole journal.
	Findings []view.Finding
	// ReadAt is when the journal was read.
	ReadAt time.Time
}

// AuditSource reads the journal of a broker with the rights of the console's user.
type AuditSource interface {
	// Log returns the records that a query selects. It returns an error if the journal does not fit together.
	Log(ctx context.Context, q AuditQuery) (*AuditLog, error)
	// Export returns all records of the query's time as JSON lines that can be verified.
	Export(ctx context.Context, q AuditQuery) ([]byte, error)
}

// exportPath is the address of the JSON lines.
const exportPath = "/audit/export.jsonl"

func auditQueryOf(r *http.Request) AuditQuery {
	q := r.URL.Query()
	value := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return AuditQuery{
		Since: value("since"), Until: value("until"), Actor: value("actor"), Cluster: value("cluster"), Reservation: value("reservation"), Kind: value("kind"),
		Ended: value("ended") != "",
	}
}

// command returns the kubectl command that shows the same records.
func (q AuditQuery) command() string {
	text := withFlags("kubectl broker audit log", flagValue{"since", q.Since}, flagValue{"until", q.Until}, flagValue{"actor", q.Actor},
		flagValue{"cluster", q.Cluster}, flagValue{"reservation", q.Reservation}, flagValue{"kind", q.Kind})
	if q.Ended {
		text += " --ended"
	}
	return text
}

// auditPage is the data of the page Audit.
type auditPage struct {
	AuditQuery
	// Problem says why there is no log; "" if there is one.
	Problem string
	Log     *AuditLog
	Read    string
	Columns []view.Column
	Rows    []auditRow
	Total   int
	Next    string
	// ExportLink is the address from which the user can download the log as JSON lines.
	ExportLink string
	// Record is the record that the user has chosen; nil for none.
	Record *auditRecord
	// Back is the address of the list without the chosen record.
	Back string
}

type auditRow []auditCell

type auditCell struct{ Text, Link string }

// auditRecord is a record with all its fields.
type auditRecord struct {
	Name   string
	Fields []view.Fact
	// Stored is the record as it is stored, with line breaks.
	Stored string
}

func buildAudit(ctx context.Context, v *visit) (*content, error) {
	page := &content{Template: "audit", Title: "Audit", Command: "kubectl broker audit log"}
	if v.site.audit == nil {
		page.Template = "notice"
		page.Data = "The console in the cluster does not show the journal, which it would have to read with the broker's rights. " +
			"The command below, and this page of kubectl broker console, read it on your computer with your rights, also while the broker is down."
		return page, nil
	}
	query := auditQueryOf(v.request)
	data := &auditPage{AuditQuery: query}
	page.Data = data
	log, err := v.site.audit.Log(ctx, query)
	if err != nil {
		data.Problem = err.Error()
		return page, nil
	}
	page.Command = query.command()
	data.fillIn(log, v.request.URL)
	return page, nil
}

// fillIn fills the page with rows, the newest first. If the address names a record, it fills in only this record.
func (p *auditPage) fillIn(log *AuditLog, address *url.URL) {
	p.Log, p.Read, p.Total = log, log.ReadAt.UTC().Format("2006-01-02 15:04:05 UTC"), len(log.Table.Rows)
	p.ExportLink = addressOf(exportPath, map[string]string{"since": p.Since, "until": p.Until})
	if name := address.Query().Get("record"); name != "" {
		p.Back = withParameter(address, "record", "")
		for _, row := range log.Table.Rows {
			if row.Ref.Name == name {
				p.Record = showRecord(log.Table.Columns, row)
			}
		}
		return
	}
	var shown []int
	for i, column := range log.Table.Columns {
		if !column.Wide || p.Ended {
			p.Columns, shown = append(p.Columns, column), append(shown, i)
		}
	}
	rows := slices.Clone(log.Table.Rows)
	slices.Reverse(rows)
	after := address.Query().Get("after")
	from := 1 + slices.IndexFunc(rows, func(r view.Row) bool { return r.Ref.Name == after })
	end := min(from+rowsPerPage, len(rows))
	if end < len(rows) {
		p.Next = nextPage(address, rows[end-1].Ref.Name)
	}
	for _, row := range rows[from:end] {
		var cells auditRow
		for _, i := range shown {
			cell := auditCell{Text: row.Cells[i]}
			switch {
			case log.Table.Columns[i].Name == "Reservation" && cell.Text != "-":
				cell.Link = addressOf("/audit", map[string]string{"reservation": cell.Text})
			case i == 0 && !p.Ended:
				cell.Link = withParameter(address, "record", row.Ref.Name)
			}
			cells = append(cells, cell)
		}
		p.Rows = append(p.Rows, cells)
	}
}

func showRecord(columns []view.Column, row view.Row) *auditRecord {
	out := &auditRecord{Name: row.Ref.Name}
	for i, column := range columns {
		if column.Name != "Record" {
			out.Fields = append(out.Fields, view.Fact{Name: column.Name, Text: row.Cells[i]})
			continue
		}
		var text bytes.Buffer
		if err := json.Indent(&text, []byte(row.Cells[i]), "", "  "); err != nil {
			text.WriteString(row.Cells[i])
		}
		for line := range strings.Lines(text.String()) {
			out.Stored += view.Clean(strings.TrimSuffix(line, "\n")) + "\n"
		}
	}
	return out
}

// serveExport sends the records of the time that the page Audit shows.
func (s *site) serveExport(w http.ResponseWriter, r *http.Request) {
	s.serveFile(w, r, "journal.jsonl", "application/jsonl; charset=utf-8", s.audit != nil, func(ctx context.Context) ([]byte, error) {
		q := auditQueryOf(r)
		return s.audit.Export(ctx, AuditQuery{Since: q.Since, Until: q.Until})
	})
}
