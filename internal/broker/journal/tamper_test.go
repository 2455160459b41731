package journal_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// audited are options with which a test keeps all its segments.
var audited = journal.Options{SegmentBytes: 600}

// longHistory returns a journal with sealed segments before and after its checkpoint, and its last
// owner, which has ended.
func longHistory(t *testing.T) (*journaltest.Server, *owner) {
	t.Helper()
	server := journaltest.NewServer()
	o := mustOpen(t, server.Client(), audited)
	for i, r := range series("n", 60) {
		o.append(t, r)
		if i == 29 {
			if err := o.save(t.Context()); err != nil {
				t.Fatalf("checkpoint: %v", err)
			}
		}
	}
	o.append(t, "no JSON", "at all")
	o.end()
	return server, o
}

func TestTampering(t *testing.T) {
	const tail = "test-journal-tail"
	server, former := longHistory(t)
	sealed := sealedAt(t, server)
	first, middle, last := sealed[0], sealed[len(sealed)-2], sealed[len(sealed)-1]
	before, err := server.Client().Get(t.Context(), middle.name)
	runtest.Check(t, err)
	tests := map[string]struct {
		// object is the name of the object to edit, or the beginning of the first such name.
		object       string
		edit         func(*journal.Object) bool
		wantPosition uint64
		// wantOpen is true if Open succeeds because it does not need the damaged part.
		wantOpen bool
	}{
		"a deleted tail": {
			object: tail, edit: remove,
		},
		"a deleted segment after the checkpoint": {
			object: last.name, edit: remove, wantPosition: last.position,
		},
		"a deleted segment before the checkpoint": {
			object: first.name, edit: remove, wantPosition: first.position, wantOpen: true,
		},
		"a deleted chunk of the checkpoint": {
			object: "test-checkpoint-", edit: remove, wantPosition: 31,
		},
		"an edited chunk of the checkpoint": {
			object: "test-checkpoint-", wantPosition: 31,
			edit: func(obj *journal.Object) bool { obj.Binary["chunk"][0]++; return true },
		},
		"an edited record": {
			object: tail, edit: replace(`"n":58`, `"n":85`), wantPosition: 61,
		},
		"a deleted record": {
			object: tail, edit: lines(func(all []string) []string { return slices.Delete(all, 1, 2) }), wantPosition: last.position + 2,
		},
		"a deleted last record": {
			object: tail, edit: lines(func(all []string) []string { return all[:len(all)-1] }), wantPosition: 64,
		},
		"two records in another order": {
			object: tail, edit: lines(func(all []string) []string { all[0], all[1] = all[1], all[0]; return all }), wantPosition: last.position + 1,
		},
		"a record twice": {
			object: tail, edit: lines(func(all []string) []string { return slices.Insert(all, 1, all[0]) }), wantPosition: last.position + 2,
		},
		"a record cut in half": {
			object: tail, edit: text(func(all string) string { return all[:len(all)-10] }), wantPosition: 64,
		},
		"packed records cut short": {
			object: tail, edit: func(obj *journal.Object) bool {
				obj.Binary["records"] = obj.Binary["records"][:len(obj.Binary["records"])-10]
				return true
			}, wantPosition: last.position + 1,
		},
		"records packed in another way": {
			object: tail, edit: text(func(all string) string { return all }),
		},
		"an edited header": {
			object: tail, edit: func(obj *journal.Object) bool {
				obj.Data["header"] = strings.Replace(obj.Data["header"], `"trimmed":0`, `"trimmed":9`, 1)
				return true
			},
		},
		"a tail that was set back to an earlier version": {
			object: tail, edit: func(obj *journal.Object) bool { obj.Data, obj.Binary = before.Data, before.Binary; return true }, wantPosition: middle.position + 1,
		},
		"a key of someone else's": {
			object: tail, edit: func(obj *journal.Object) bool { obj.Data["note"] = "hello"; return true },
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			server := server.Clone()
			object := find(t, server, test.object)
			server.Tamper(object, test.edit)
			_, err := journal.Verify(t.Context(), server.Client(), name, audited)
			var corrupt *journal.CorruptError
			if object == tail && !errors.As(err, &corrupt) {
				// If the tail is missing, Verify reports that there is no journal. Only Open
				// reports the damage.
				wantErrors(t, err, journal.ErrNotFound)
			} else {
				wantCorrupt(t, err, object, test.wantPosition)
			}
			again, err := open(server.Client(), audited)
			if !test.wantOpen {
				wantCorrupt(t, err, object, test.wantPosition)
				return
			}
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			defer again.end()
			if diff := cmp.Diff(former.state, again.state); diff != "" {
				t.Errorf("recovered (-want +got):\n%s", diff)
			}
		})
	}
}

func wantCorrupt(t *testing.T, err error, object string, position uint64) {
	t.Helper()
	var corrupt *journal.CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatalf("got error %v, want a *CorruptError", err)
	}
	if corrupt.Object != object || corrupt.Position != position {
		t.Errorf("got damage of %q at position %d, want %q at %d: %v", corrupt.Object, corrupt.Position, object, position, err)
	}
}

func find(t *testing.T, server *journaltest.Server, prefix string) string {
	t.Helper()
	for _, obj := range server.Objects() {
		if strings.HasPrefix(obj.Name, prefix) {
			return obj.Name
		}
	}
	var all []string
	for _, obj := range server.Objects() {
		all = append(all, obj.Name)
	}
	t.Fatalf("no object %q among %q", prefix, all)
	return ""
}

// place is a sealed segment and its last position.
type place struct {
	name     string
	position uint64
}

// sealedAt returns the sealed segments of a longHistory, of which there are at least three, in
// order of their positions.
func sealedAt(t *testing.T, server *journaltest.Server) []place {
	t.Helper()
	var found []place
	for _, obj := range server.Objects() {
		if obj.Labels[journal.LabelPart] != journal.PartSegment {
			continue
		}
		position, err := strconv.ParseUint(strings.Split(obj.Name, "-")[2], 10, 64)
		runtest.Check(t, err)
		found = append(found, place{obj.Name, position})
	}
	if len(found) < 3 {
		t.Fatalf("%d segments were sealed, want at least 3: %v", len(found), found)
	}
	return found
}

func remove(*journal.Object) bool { return false }

// text returns an edit of the unpacked records, which are then packed again.
func text(edit func(string) string) func(*journal.Object) bool {
	return func(obj *journal.Object) bool {
		obj.Binary["records"] = pack(edit(unpack(obj.Binary["records"])))
		return true
	}
}

func unpack(file []byte) string {
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		panic(err)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return string(all)
}

func pack(all string) []byte {
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	_, _ = w.Write([]byte(all)) // a write to memory cannot fail
	_ = w.Close()
	return file.Bytes()
}

func replace(before, after string) func(*journal.Object) bool {
	return text(func(all string) string { return strings.Replace(all, before, after, 1) })
}

func lines(edit func([]string) []string) func(*journal.Object) bool {
	return text(func(text string) string {
		all := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
		all[len(all)-1] += "\n"
		return strings.Join(edit(all), "")
	})
}

// TestRandomTampering makes one random edit at a time. Verify finds every edit. Open either refuses
// the journal or returns the true state, because it does not need the damaged part.
func TestRandomTampering(t *testing.T) {
	const edits = 3000
	server, former := longHistory(t)
	random := rand.New(rand.NewPCG(1, 2))
	objects := server.Objects()
	kinds := map[string]int{}
	for range edits {
		server := server.Clone()
		kind := tamper(random, server, objects)
		if kind == "" {
			continue
		}
		kinds[kind]++
		_, err := journal.Verify(t.Context(), server.Client(), name, audited)
		var corrupt *journal.CorruptError
		if !errors.As(err, &corrupt) && !errors.Is(err, journal.ErrNotFound) {
			t.Fatalf("%s is not found: verify says %v", kind, err)
		}
		_, found, err := journal.Open(t.Context(), server.Client(), name, audited)
		if err != nil {
			continue
		}
		state, err := replay(found)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if diff := cmp.Diff(former.state, state); diff != "" {
			t.Fatalf("%s leads to another state (-want +got):\n%s", kind, diff)
		}
	}
	t.Logf("all found: %v", kinds)
	if len(kinds) != 6 {
		t.Errorf("%d kinds of edits were made, want 6", len(kinds))
	}
}

// tamper makes a random edit and returns its kind; "" if it changed nothing.
func tamper(random *rand.Rand, server *journaltest.Server, objects []journal.Object) string {
	victim, other := objects[random.IntN(len(objects))], objects[random.IntN(len(objects))]
	kind := ""
	server.Tamper(victim.Name, func(obj *journal.Object) bool {
		var all []string
		if packed := obj.Binary["records"]; packed != nil {
			all = strings.SplitAfter(unpack(packed), "\n")
		} else {
			all = []string{""}
		}
		put := func(edited []string) { obj.Binary["records"] = pack(strings.Join(edited, "")) }
		i, k := random.IntN(len(all)), random.IntN(len(all))
		switch random.IntN(6) {
		case 0:
			kind = "a flipped bit"
			flip(random, obj)
		case 1:
			kind = "a deleted object"
			return false
		case 2:
			if all[i] != "" {
				kind = "a deleted record"
				put(slices.Delete(all, i, i+1))
			}
		case 3:
			if all[i] != all[k] && all[i] != "" && all[k] != "" {
				kind = "reordered records"
				all[i], all[k] = all[k], all[i]
				put(all)
			}
		case 4:
			if all[i] != "" {
				kind = "a repeated record"
				put(slices.Insert(all, k, all[i]))
			}
		case 5:
			// A tail that is set back to its state at the last seal looks the same as a tail
			// whose writer crashed at that moment.
			lastSealed := objects[len(objects)-2].Name
			if other.Name != victim.Name && other.Name != lastSealed {
				kind = "the content of another object"
				obj.Data, obj.Binary = maps.Clone(other.Data), maps.Clone(other.Binary)
			}
		}
		return true
	})
	return kind
}

func flip(random *rand.Rand, obj *journal.Object) {
	keys := slices.Concat(slices.Sorted(maps.Keys(obj.Data)), slices.Sorted(maps.Keys(obj.Binary)))
	key := keys[random.IntN(len(keys))]
	if file, ok := obj.Binary[key]; ok {
		file[random.IntN(len(file))] ^= 1 << random.IntN(8)
		return
	}
	text := []byte(obj.Data[key])
	text[random.IntN(len(text))] ^= 1 << random.IntN(7)
	obj.Data[key] = string(text)
}
