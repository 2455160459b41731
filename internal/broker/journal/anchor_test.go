package journal

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// A forger with write access edits, inserts, drops or exchanges records, or cuts off the beginning
// or the end, and then recomputes every hash, header, checksum and name, so that Verify finds
// nothing. The anchors that members took before, the newest at the head, still show every edit.
func TestForgedJournalsDisagreeWithAnchors(t *testing.T) {
	const edits = 1000
	random := rand.New(rand.NewPCG(7, 7))
	lines := make([]string, 120)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"n":%d,"by":"rome:alice"}`, i)
	}
	kinds := map[string]int{}
	genuine := forge(t, "genuine", 0, lines)
	for range edits {
		anchors := anchorsOf(genuine, random)
		if got, err := VerifyAnchored(t.Context(), genuine, "test", Options{}, anchors); err != nil || len(got.Agreed) != len(anchors) {
			t.Fatalf("the genuine journal: %d of %d anchors agree, %v", len(got.Agreed), len(anchors), err)
		}
		kind, first, edited := editRecords(random, lines)
		forged := forge(t, "genuine", first, edited)
		if _, err := Verify(t.Context(), forged, "test", Options{}); err != nil {
			t.Fatalf("%s is no good forgery: %v", kind, err)
		}
		got, err := VerifyAnchored(t.Context(), forged, "test", Options{}, anchors)
		if err != nil || len(got.Disagreed)+len(got.Trimmed) == 0 {
			t.Fatalf("%s is not found: %+v, %v", kind, got, err)
		}
		kinds[kind]++
	}
	t.Logf("all found: %v", kinds)
	if len(kinds) != 6 {
		t.Errorf("%d kinds of edits were made, want 6", len(kinds))
	}
}

// editRecords returns a copy of the records with one random edit. first is the number of records
// that the forger pretends were trimmed.
func editRecords(random *rand.Rand, lines []string) (kind string, first int, edited []string) {
	edited = slices.Clone(lines)
	i := random.IntN(len(edited))
	switch random.IntN(6) {
	case 0:
		edited[i] = strings.Replace(edited[i], "alice", "carol", 1)
		return "an edited record", 0, edited
	case 1:
		return "a deleted record", 0, slices.Delete(edited, i, i+1)
	case 2:
		return "an inserted record", 0, slices.Insert(edited, i, `{"n":-1}`)
	case 3:
		k := (i + 1 + random.IntN(len(edited)-1)) % len(edited)
		edited[i], edited[k] = edited[k], edited[i]
		return "exchanged records", 0, edited
	case 4:
		return "a journal that ends earlier", 0, edited[:i]
	default:
		return "a journal whose beginning was trimmed", i + 1, edited
	}
}

// anchorsOf returns anchors of three members: rome's is at the head, paris's at a random place, and
// bern's after the first record.
func anchorsOf(store *forgery, random *rand.Rand) []Anchor {
	at := func(n int, by string) Anchor {
		a := store.places[n].anchorIn("genuine")
		a.By, a.At = by, time.Unix(int64(n), 0)
		return a
	}
	last := len(store.places) - 1
	return []Anchor{at(last, "rome"), at(1+random.IntN(last), "paris"), at(1, "bern")}
}

// forgery is a store with a consistent journal of any content, in one segment.
type forgery struct {
	Store
	tail Object
	// chunks holds the chunks of the checkpoint, by name.
	chunks map[string]Object
	// places are the place before the first kept record and the places after each of them.
	places []link
}

// forge writes a journal of lines. It leaves the first ones out, as many as trimmed says, and
// declares them trimmed.
func forge(t *testing.T, id string, trimmed int, lines []string) *forgery {
	t.Helper()
	out := &forgery{}
	at := genesisOf(id)
	var text []byte
	for i, line := range lines {
		if i == trimmed {
			out.places, text = []link{at}, nil
		}
		at = at.after(kindRecord, []byte(line))
		out.places, text = append(out.places, at), appendLine(text, at, kindRecord, []byte(line))
	}
	if trimmed == len(lines) {
		out.places, text = []link{at}, nil
	}
	if len(out.places) == 0 {
		out.places = []link{at}
	}
	h := header{Format: format, Journal: id, Anchor: out.places[0], Head: at, Trimmed: out.places[0].Position}
	head, err := json.Marshal(h)
	runtest.Check(t, err)
	packed := newPack().addLines(text)
	out.tail = Object{
		Name: names("test").tailName(), ResourceVersion: "1", Binary: map[string][]byte{keyRecords: packed},
		Data: map[string]string{keyHeader: string(head), keyChecksum: checksumOf(head, packed)},
	}
	return out
}

func (f *forgery) Get(_ context.Context, name string) (Object, error) {
	if chunk, known := f.chunks[name]; known {
		return chunk, nil
	}
	if name != f.tail.Name {
		return Object{}, ErrNotFound
	}
	return f.tail, nil
}

func (f *forgery) List(context.Context, map[string]string) ([]Object, error) {
	return []Object{f.tail}, nil
}

// A forger who replaces the state of a checkpoint, and everything that names it outside of the
// chain, changes no record, so every anchor agrees with the forged journal. The chain's record
// about the checkpoint shows the forgery.
func TestForgedCheckpointsAreFound(t *testing.T) {
	refOf := func(state string) *checkpointRef {
		return &checkpointRef{Position: 3, Hash: sha256.Sum256([]byte(state)), Bytes: len(state), Chunks: 1}
	}
	genuine, forged := refOf("rome holds 4"), refOf("rome holds 9")
	older := refOf("rome holds 2")
	older.Position = 2
	tests := map[string]struct {
		recorded []*checkpointRef
		named    *checkpointRef
		state    string
		found    bool
	}{
		"the genuine checkpoint":             {[]*checkpointRef{genuine}, genuine, "rome holds 4", false},
		"the newer one of two":               {[]*checkpointRef{older, genuine}, genuine, "rome holds 4", false},
		"no checkpoint":                      {nil, nil, "", false},
		"another state":                      {[]*checkpointRef{genuine}, forged, "rome holds 9", true},
		"the state of an earlier checkpoint": {[]*checkpointRef{older, genuine}, older, "rome holds 2", true},
		"a checkpoint that nobody recorded":  {nil, forged, "rome holds 9", true},
		"a checkpoint is hidden":             {[]*checkpointRef{genuine}, nil, "", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := forgeCheckpoint(t, test.recorded, test.named, test.state)
			_, err := Verify(t.Context(), store, "test", Options{})
			if corrupt, ok := errors.AsType[*CorruptError](err); ok != test.found || !ok && err != nil {
				t.Errorf("verify: %v, want that it is found: %t (%v)", err, test.found, corrupt)
			}
			w, err := newWriter(store, "test", Options{})
			runtest.Check(t, err)
			got, err := newReader(w).readAll(t.Context())
			if _, ok := errors.AsType[*CorruptError](err); ok != test.found || !ok && err != nil {
				t.Errorf("read: %v, want that it is found: %t", err, test.found)
			}
			if !test.found && string(got.recovery.Checkpoint) != test.state {
				t.Errorf("read %q", got.recovery.Checkpoint)
			}
		})
	}
}

// forgeCheckpoint writes a journal of three records, then the given checkpoint records and one more
// record. The header names a checkpoint, which has the given state.
func forgeCheckpoint(t *testing.T, recorded []*checkpointRef, named *checkpointRef, state string) *forgery {
	t.Helper()
	out := forge(t, "genuine", 0, []string{`{"n":1}`, `{"n":2}`, `{"n":3}`})
	text, at := []byte(nil), genesisOf("genuine")
	add := func(k kind, line []byte) {
		at = at.after(k, line)
		text = appendLine(text, at, k, line)
	}
	for _, line := range []string{`{"n":1}`, `{"n":2}`, `{"n":3}`} {
		add(kindRecord, []byte(line))
	}
	for _, ref := range recorded {
		payload, err := json.Marshal(ref)
		runtest.Check(t, err)
		add(kindCheckpoint, payload)
	}
	add(kindRecord, []byte(`{"n":4}`))
	head, err := json.Marshal(header{Format: format, Journal: "genuine", Anchor: genesisOf("genuine"), Head: at, Checkpoint: named})
	runtest.Check(t, err)
	packed := newPack().addLines(text)
	out.tail.Binary[keyRecords], out.tail.Data[keyHeader], out.tail.Data[keyChecksum] = packed, string(head), checksumOf(head, packed)
	if named != nil {
		name := names("test").chunkName(*named, 0)
		out.chunks = map[string]Object{name: {Name: name, Binary: map[string][]byte{keyChunk: []byte(state)}}}
	}
	return out
}

func TestAnchorsOfOtherJournalsDisagree(t *testing.T) {
	store := forge(t, "new", 0, []string{`{"n":1}`})
	old := forge(t, "old", 0, []string{`{"n":1}`}).places[1].anchorIn("old")
	old.By = "rome"
	got, err := VerifyAnchored(t.Context(), store, "test", Options{}, []Anchor{old})
	if err != nil || len(got.Disagreed) != 1 || !strings.Contains(got.Disagreed[0].Why, `"rome" was told of journal old`) {
		t.Errorf("%+v, %v", got, err)
	}
}
