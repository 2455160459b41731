package journal

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzLine writes any record as a line and reads it back. It also checks that any accepted line
// is exactly the line that appendLine would have written.
func FuzzLine(f *testing.F) {
	for _, record := range []string{"", "{}", ` {"a":1}`, "{\n}", "\xff", `"}`, `{"p":2,"h":"0011223344556677","record":{}}`} {
		f.Add([]byte(record), record)
	}
	f.Fuzz(func(t *testing.T, record []byte, text string) {
		prev := genesisOf("fuzz")
		at := prev.after(kindRecord, record)
		line := string(appendLine(nil, at, kindRecord, record))
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Fatalf("record %q is written over several lines", record)
		}
		e, err := readLine(strings.TrimSuffix(line, "\n"), prev)
		if err != nil {
			t.Fatalf("record %q: %v", record, err)
		}
		if diff := cmp.Diff(string(record), string(e.payload)); diff != "" || e.at != at || e.kind != kindRecord {
			t.Errorf("record is read as another (-want +got):\n%s", diff)
		}
		if e, err := readLine(text, prev); err == nil && string(appendLine(nil, e.at, e.kind, e.payload)) != text+"\n" {
			t.Errorf("line %q is accepted, but is not how it is written", text)
		}
	})
}

// TestChain pins the stored form of a chain: changing it would make every journal unreadable.
func TestChain(t *testing.T) {
	first := genesisOf("abc").after(kindRecord, []byte(`{"a":1}`))
	second := first.after(kindOpen, []byte(`{}`))
	third := second.after(kindRecord, []byte("plain"))
	got := string(appendLine(nil, first, kindRecord, []byte(`{"a":1}`))) +
		string(appendLine(nil, second, kindOpen, []byte(`{}`))) +
		string(appendLine(nil, third, kindRecord, []byte("plain")))
	const want = `{"p":1,"h":"0ba1537cf0604c31","record":{"a":1}}
{"p":2,"h":"59d5fd3acf0db12b","open":{}}
{"p":3,"h":"98186e8f10ef0118","bytes":"cGxhaW4="}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
