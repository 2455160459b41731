package journal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the version wrote that did not pack records yet.
const (
	plainHeader  = `{"format":1,"journal":"abcdefghijklmnopqrstuvwxyz","writer":"former","anchor":{"position":0,"hash":"04d28f6ebb9f01c94afc9916f0bc1b7f5b3933cd1d32efb6f92e5f11c97b6b65"},"head":{"position":3,"hash":"ed6baddd5408426e5f05385d1d03b4eb0810c8a93d28bb90ec340c7fd8ae039b"},"trimmed":0}`
	plainRecords = `{"p":1,"h":"777f6c36f66d55e7","open":{}}
{"p":2,"h":"cd8e2ee8aedda6aa","record":{"a":1}}
{"p":3,"h":"ed6baddd5408426e","bytes":"bm8gSlNPTg=="}
`
	plainChecksum = `2834eaa8eac6c9660a456fcabd3d5a2e152a084bb940cefab3b0bb4250206bc7`
)

// TestPlainSegment reads a tail of a former version, seals it as it is, so that a copy
// which that version made already is the same, and continues it packed.
func TestPlainSegment(t *testing.T) {
	plain := Object{Data: map[string]string{keyHeader: plainHeader, keyRecords: plainRecords, keyChecksum: plainChecksum}}
	h, _, err := decode(plain)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.entries) != 3 || string(h.entries[1].payload) != `{"a":1}` {
		t.Errorf("read %v", h.entries)
	}
	s := h.continued()
	if diff := cmp.Diff(plain, Object{Data: s.text, Binary: s.binary}); diff != "" {
		t.Errorf("it would be sealed as another (-want +got):\n%s", diff)
	}
	if !s.full(len(plainRecords)) || s.full(len(plainRecords)+1) {
		t.Errorf("its size is %d, want %d", s.size(), len(plainRecords))
	}
	more, err := s.with(opening(s), "writer")
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := decode(Object{Data: more.text, Binary: more.binary})
	if err != nil {
		t.Fatal(err)
	}
	if len(again.entries) != 4 || again.entries[3].kind != kindOpen {
		t.Errorf("continued it is read as %v", again.entries)
	}
}
