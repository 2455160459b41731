package journal

import (
	"maps"
	"testing"
)

// FuzzSegment: what is read as a segment is what would be written as one, byte by byte.
func FuzzSegment(f *testing.F) {
	s := segment{header: header{Format: format, Journal: "fuzz", Anchor: genesis("fuzz"), Head: genesis("fuzz")}}
	add := func(s segment) {
		data, err := s.data()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[keyHeader], data[keyRecords], true)
	}
	add(s)
	s = s.with(opening(s), "writer")
	add(s)
	payload := []byte(`{"position":1,"hash":"` + digest{}.String() + `","bytes":0,"chunks":0}`)
	head := s.header.Head.next(kindCheckpoint, payload)
	add(s.with(&batch{lines: appendLine(nil, head, kindCheckpoint, payload), records: 1, head: head, checkpoint: &checkpointRef{Position: 1}}, "writer"))
	add(s.successor())
	f.Add(`{"format":2}`, "", true)
	f.Add("{}", "{\"p\":1\n", false)
	f.Fuzz(func(t *testing.T, head, records string, rightly bool) {
		data := map[string]string{keyHeader: head, keyRecords: records, keyChecksum: ""}
		if rightly {
			data[keyChecksum] = checksum([]byte(head))
		}
		s, entries, _, err := decode(Object{Data: data})
		if err != nil {
			return
		}
		if !rightly {
			t.Fatal("a header without its checksum is accepted")
		}
		if len(entries) > 0 && s.header.Head.Position != entries[len(entries)-1].at.Position {
			t.Errorf("head %d, last record %d", s.header.Head.Position, entries[len(entries)-1].at.Position)
		}
		again, err := s.data()
		if err != nil {
			t.Fatal(err)
		}
		read, _, _, err := decode(Object{Data: again})
		if err != nil {
			t.Fatalf("written again it is refused: %v", err)
		}
		if rewritten, err := read.data(); err != nil || !maps.Equal(again, rewritten) {
			t.Errorf("it is read as another: %v, %v, %v", again, rewritten, err)
		}
	})
}
