package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// fixedAudit is an AuditSource with some records of an actor, one for each minute, and one ended reservation.
type fixedAudit struct {
	actor   string
	records int
}

func (f fixedAudit) Log(_ context.Context, q AuditQuery) (*AuditLog, error) {
	if q.Since == "yesterday" {
		return nil, errors.New(`--since: "yesterday" is no time: write how long ago, such as 2h or 7d`)
	}
	out := &AuditLog{Kinds: []string{"end", "reserve"}, ReadAt: noon, Findings: []view.Finding{
		{Text: fmt.Sprintf("journal b2f1: records 1 to %d in 2 objects fit together", f.records)}, {Level: view.Failure, Text: "WRONG ACCOUNTS: 2026-10 of " + f.actor},
	}}
	if q.Ended {
		out.Table = view.Table{
			Columns: []view.Column{{Name: "Ended"}, {Name: "Reservation"}, {Name: "Reason"}, {Name: "Ended by", Wide: true}},
			Rows:    []view.Row{{Ref: view.Ref{Kind: "Reservation", Name: "res-a"}, Cells: []string{"2026-11-20T11:00:00Z", "res-a", "Expired", f.actor}}},
		}
		return out, nil
	}
	out.Table.Columns = []view.Column{{Name: "Position"}, {Name: "Time"}, {Name: "Kind"}, {Name: "Actor"}, {Name: "Reservation"}, {Name: "Hash", Wide: true}, {Name: "Record", Wide: true}}
	for i := range f.records {
		position, at := fmt.Sprint(i+1), noon.Add(time.Duration(i-f.records)*time.Minute).Format(time.RFC3339)
		cells := []string{position, at, "reserve", f.actor, "res-a", "9f2c", fmt.Sprintf(`{"at":%q,"reserve":{"name":"res-a","requester":%q}}`, at, f.actor)}
		if i == 0 {
			cells[2], cells[4], cells[6] = "open", "-", "{}"
		}
		if strings.Contains(f.actor, q.Actor) {
			out.Table.Rows = append(out.Table.Rows, view.Row{Ref: view.Ref{Kind: "Record", Name: position}, Cells: cells})
		}
	}
	return out, nil
}

func (f fixedAudit) Export(_ context.Context, q AuditQuery) ([]byte, error) {
	if q.Actor != "" {
		return nil, errors.New("an export has all records of its time")
	}
	if q.Until == "2025-01-01T00:00:00Z" {
		return nil, errors.New("nothing to export: the journal has no record in this time")
	}
	return []byte("{\"position\":1}\n"), nil
}

// auditServer returns a server for a console whose journal has some records of an actor.
func auditServer(t *testing.T, actor string, records int) *httptest.Server {
	t.Helper()
	s := siteOf(&fixedObjects{view: brokerSnapshot(t)})
	s.audit = fixedAudit{actor, records}
	server := httptest.NewTLSServer(newHandler(s))
	t.Cleanup(server.Close)
	return server
}

// Records are added while a user turns pages. Therefore the address of a page names a record, and not the
// number of a row.
func TestRecordsArePagedFromTheNewestAndStayOnTheirPage(t *testing.T) {
	before, after := auditServer(t, "alice", 250), auditServer(t, "alice", 260)
	_, first := get(t, before, "/audit?actor=alice", "admin")
	if !strings.Contains(first, ">250</a>") || !strings.Contains(first, ">151</a>") || strings.Contains(first, ">150</a>") || !strings.Contains(first, `href="/audit?actor=alice&amp;after=151"`) {
		t.Error("the first page must show records 250 to 151, and lead to the second")
	}
	for name, server := range map[string]*httptest.Server{"before": before, "after": after} {
		if _, second := get(t, server, "/audit?actor=alice&after=151", "admin"); !strings.Contains(second, ">150</a>") || !strings.Contains(second, ">51</a>") || strings.Contains(second, ">151</a>") || strings.Contains(second, ">50</a>") {
			t.Errorf("the second page must show records 150 to 51 %s more were added", name)
		}
	}
	if _, last := get(t, before, "/audit?after=51", "admin"); !strings.Contains(last, ">1</a>") || strings.Contains(last, "Next page") {
		t.Error("the third page must be the last")
	}
}

func TestRecordsAreExported(t *testing.T) {
	server := auditServer(t, "alice", 3)
	status, body := get(t, server, exportPath+"?since=2h&actor=alice", "admin")
	if status != http.StatusOK || body != "{\"position\":1}\n" {
		t.Errorf("status %d: %s", status, body)
	}
	if status, body := get(t, server, exportPath+"?until=2025-01-01T00:00:00Z", "admin"); status != http.StatusServiceUnavailable || !strings.Contains(body, "nothing to export") {
		t.Errorf("an empty export: status %d: %s", status, body)
	}
}

// The journal is shown neither to strangers nor by a console that does not read it with the user's rights.
func TestJournalIsShownOnlyWithTheUsersRights(t *testing.T) {
	personal, inCluster := auditServer(t, "alice", 3), serve(t, &fixedObjects{view: brokerSnapshot(t)})
	for _, path := range []string{"/audit", "/audit?record=2", "/audit?ended=true", exportPath} {
		if status, body := get(t, personal, path, "stranger"); status != http.StatusUnauthorized || strings.Contains(body, "alice") {
			t.Errorf("%s for a stranger: status %d", path, status)
		}
	}
	if status, body := get(t, inCluster, "/audit", "admin"); status != http.StatusOK || !strings.Contains(body, "does not show the journal") {
		t.Errorf("the console in the cluster shows the journal: status %d", status)
	}
	if status, _ := get(t, inCluster, exportPath, "admin"); status != http.StatusNotFound {
		t.Errorf("the console in the cluster exports the journal: status %d", status)
	}
	if status, _ := get(t, serve(t, &fixedObjects{view: memberSnapshot(t)}), "/audit", "admin"); status != http.StatusNotFound {
		t.Errorf("a member has a page about the journal: status %d", status)
	}
}
