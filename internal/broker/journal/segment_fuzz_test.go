package journal

import (
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// FuzzSegment checks that only packed segments with the right checksum are accepted, and that a
// segment can be continued after it was accepted: it is then read with the same lines and one more.
func FuzzSegment(f *testing.F) {
	s, err := newSegment("fuzz")
	runtest.Check(f, err)
	add := func(b *batch) {
		s, err = s.withBatch(b, "writer")
		runtest.Check(f, err)
		f.Add(s.text[keyHeader], s.binary[keyRecords], true, true)
	}
	f.Add(s.text[keyHeader], s.binary[keyRecords], true, true)
	add(openingBatch(s))
	payload := []byte(`{"position":1,"hash":"` + digest{}.String() + `","bytes":0,"chunks":0}`)
	head := s.header.Head.after(kindCheckpoint, payload)
	add(&batch{lines: appendLine(nil, head, kindCheckpoint, payload), records: 1, head: head, checkpoint: &checkpointRef{Position: 1}})
	s = s.successor()
	add(openingBatch(s))
	f.Add(`{"format":3}`, []byte{}, true, true)
	f.Add("{}", []byte("{\"p\":1\n"), false, false)
	f.Fuzz(func(t *testing.T, head string, records []byte, packed, rightly bool) {
		obj := Object{Data: map[string]string{keyHeader: head, keyChecksum: ""}}
		if packed {
			obj.Binary = map[string][]byte{keyRecords: records}
		} else {
			obj.Data[keyRecords] = string(records)
		}
		if rightly {
			obj.Data[keyChecksum] = checksumOf([]byte(head), obj.Binary[keyRecords])
		}
		h, _, err := decodeHistory(obj)
		if err != nil {
			return
		}
		if !packed {
			t.Fatal("records that are not packed are accepted")
		}
		if !rightly {
			t.Fatal("a segment without its checksum is accepted")
		}
		if n := len(h.entries); n > 0 && h.header.Head != h.entries[n-1].at {
			t.Errorf("head %v, last record %v", h.header.Head, h.entries[n-1].at)
		}
		more, err := h.asContinued().withBatch(openingBatch(h.segment), "writer")
		runtest.Check(t, err)
		again, _, err := decodeHistory(Object{Data: more.text, Binary: more.binary})
		if err != nil {
			t.Fatalf("continued it is refused: %v", err)
		}
		if len(again.entries) != len(h.entries)+1 || again.lines[:len(h.lines)] != h.lines {
			t.Errorf("continued it is read as another: %q, %q", h.lines, again.lines)
		}
	})
}
