package app

import (
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail/trailtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// packExport writes records to a compressed file, as the broker does.
func packExport(t *testing.T, name, journalID string, records []trail.Record, heads ...brokerv1alpha1.Receipt) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	packed := gzip.NewWriter(file)
	_, err = trail.WriteExport(packed, journalID, records, trailtest.Start, heads)
	if err := errors.Join(err, packed.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

// readRecords returns the ID and the records of a new journal with trailtest.Events.
func readRecords(t *testing.T) (string, []trail.Record) {
	t.Helper()
	server := journaltest.NewServer()
	trailtest.Write(t, server.Client(), "test", trailtest.Events())
	kept, err := journal.ReadKept(t.Context(), server.Client(), "test", journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	records, err := trail.Read(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	return kept.ID, records
}

func TestFailedExportsLeaveNoFile(t *testing.T) {
	name, broken := filepath.Join(t.TempDir(), "journal.jsonl"), errors.New("broken")
	if err := (&plugin{}).writeExport(name, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestSeveralFilesAreVerifiedInARow(t *testing.T) {
	id, records := readRecords(t)
	otherID, others := readRecords(t)
	first, second, third := packExport(t, "1.jsonl.gz", id, records[:3]), packExport(t, "2.jsonl.gz", id, records[3:6]), packExport(t, "3.jsonl.gz", id, records[6:])
	foreign, forked := packExport(t, "foreign.jsonl.gz", otherID, others[3:6]), packExport(t, "forked.jsonl.gz", id, others[3:6])
	for name, tc := range map[string]struct {
		files []string
		code  int
		want  string
	}{
		"all in order":                   {[]string{first, second, third}, exitDone, "records 1 to 9 in 3 objects fit together"},
		"the last two":                   {[]string{second, third}, exitDone, "records 4 to 9 in 2 objects fit together"},
		"one is missing":                 {[]string{first, third}, exitAttention, "3.jsonl.gz begins with record 7, and " + first + " ends with record 3"},
		"not in order":                   {[]string{second, first}, exitAttention, "or they are not in order"},
		"one of another journal":         {[]string{first, foreign}, exitAttention, "verify each journal by itself"},
		"one of another course":          {[]string{first, forked}, exitAttention, "does not continue the chain of hashes"},
		"one that does not exist at all": {[]string{first, "none.jsonl.gz"}, exitAttention, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			checkRun(t, tc.code, tc.want, append([]string{"audit", "verify"}, tc.files...)...)
		})
	}
}

// A forger can write any records with correct hashes, because hashes need no key. Only the broker
// can sign.
func TestSignatureShowsWhichRecordsAreOfTheBroker(t *testing.T) {
	broker, mallory := pkitest.New(t, "servers", trailtest.Start), pkitest.New(t, "servers", trailtest.Start)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: broker.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	id, records := readRecords(t)
	otherID, others := readRecords(t)
	signerOf := func(a *pkitest.Authority) *receipt.Signer {
		credentials := &pki.Credentials{Certificate: pkitest.Parse(t)(a.IssueServer([]string{"broker.example.com"}, nil))}
		return receipt.NewSigner(func() (*pki.Credentials, error) { return credentials, nil })
	}
	headOf := func(s *receipt.Signer, id string, r *trail.Record) brokerv1alpha1.Receipt {
		head, err := s.SignHead(receipt.Place{ID: id, Position: r.Position, Hash: r.Hash}, trailtest.Start)
		if err != nil {
			t.Fatal(err)
		}
		return *head
	}
	genuine, stolen := signerOf(broker), signerOf(mallory)
	file := func(name, id string, records []trail.Record, heads ...brokerv1alpha1.Receipt) string {
		return packExport(t, name+".jsonl.gz", id, records, heads...)
	}
	// exchange replaces one signed head in a file by another, which WriteExport would not choose.
	exchange := func(file string, before, after brokerv1alpha1.Receipt) string {
		return replaceIn(t, file, before.Statement, after.Statement)
	}
	fifth, last := headOf(genuine, id, &records[4]), headOf(genuine, id, &records[8])
	agreed, err := genuine.Sign(&receipt.Agreement{
		Reservation: "res-k3v9x2m7qa", Placement: 1, Requester: "rome", Provider: "paris", State: receipt.Held, HeldSince: trailtest.Start,
	}, receipt.Place{ID: id, Position: 9, Hash: records[8].Hash}, trailtest.Start)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		files []string
		code  int
		want  string
	}{
		"everything is signed":                {[]string{"--ca-file", ca, file("all", id, records, fifth, last)}, exitDone, "signed by broker.example.com: up to record 9, at 2030-01-01T08:00:00Z\n"},
		"a part is signed":                    {[]string{"--ca-file", ca, file("part", id, records, fifth)}, exitDone, "signed by broker.example.com: up to record 5, at 2030-01-01T08:00:00Z; 4 newer records are not\n"},
		"an earlier file of a row":            {[]string{"--ca-file", ca, file("first", id, records[:3]), file("second", id, records[3:], last)}, exitDone, "up to record 9"},
		"a later file of a row":               {[]string{"--ca-file", ca, file("first", id, records[:5], fifth), file("second", id, records[5:])}, exitDone, "up to record 5"},
		"without a CA":                        {[]string{file("all", id, records, last)}, exitDone, "signed, NOT VERIFIED, use --ca-file: up to record 9"},
		"nothing is signed":                   {[]string{"--ca-file", ca, file("none", id, records)}, exitAttention, "not signed by the broker"},
		"nothing is signed, and no CA":        {[]string{file("none", id, records)}, exitDone, "not signed by the broker"},
		"other records, with an old head":     {[]string{"--ca-file", ca, file("forged", otherID, others, last, fifth)}, exitAttention, "not signed by the broker"},
		"other records, head put in":          {[]string{"--ca-file", ca, exchange(file("forged", otherID, others, headOf(stolen, otherID, &others[8])), headOf(stolen, otherID, &others[8]), last)}, exitAttention, "the export was edited"},
		"other records, head put in, no CA":   {[]string{exchange(file("forged", otherID, others, headOf(stolen, otherID, &others[8])), headOf(stolen, otherID, &others[8]), last)}, exitAttention, "the export was edited"},
		"signed by someone else":              {[]string{"--ca-file", ca, file("forged", otherID, others, headOf(stolen, otherID, &others[8]))}, exitAttention, "is not valid"},
		"the statement is not what is signed": {[]string{"--ca-file", ca, exchange(file("late", id, records, fifth), fifth, last)}, exitAttention, "is not valid"},
		"a receipt instead":                   {[]string{"--ca-file", ca, exchange(file("all", id, records, last), last, *agreed)}, exitAttention, "cannot be read"},
		"a CA and no file":                    {[]string{"--ca-file", ca}, exitUsage, "name one"},
	} {
		t.Run(name, func(t *testing.T) {
			checkRun(t, tc.code, tc.want, append([]string{"audit", "verify"}, tc.files...)...)
		})
	}
}

// replaceIn returns the name of a copy of a compressed file in which a JSON string is replaced.
func replaceIn(t *testing.T, file, before, after string) string {
	t.Helper()
	packed, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	from, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	quoted := func(s string) string {
		out, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if !strings.Contains(string(text), quoted(before)) {
		t.Fatal("the file does not contain the text")
	}
	name := filepath.Join(t.TempDir(), "edited.jsonl")
	if err := os.WriteFile(name, []byte(strings.Replace(string(text), quoted(before), quoted(after), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
