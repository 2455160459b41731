package journaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// serverFields ignores the fields that a store fills in.
var serverFields = cmpopts.IgnoreFields(journal.Object{}, "ResourceVersion", "Created")

// Conformance tests the store behaviour on which the journal relies. Each store that open
// returns must be empty.
func Conformance(t *testing.T, open func(t *testing.T) journal.Store) {
	tests := map[string]func(*testing.T, journal.Store){
		"an object is read as it was created":                    testRoundTrip,
		"a second create of a name is refused":                   testCreateTwice,
		"what does not exist is reported as such":                testMissing,
		"an update needs the present resourceVersion":            testUpdateVersion,
		"of many updates of one resourceVersion one is stored":   testUpdateRace,
		"a touched object has another resourceVersion only":      testTouch,
		"an immutable object is deleted but never updated":       testImmutable,
		"an object of more than 1 MiB is refused":                testTooLarge,
		"list finds by label, in order of name, without content": testList,
		"a call whose context has ended is not sent":             testContextEnded,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func sample(name string) journal.Object {
	return journal.Object{
		Name:   name,
		Labels: map[string]string{journal.LabelJournal: "sample", journal.LabelPart: journal.PartTail},
		Data:   map[string]string{"text": "line one\nline two é \r\n", "empty": ""},
		Binary: map[string][]byte{"bytes": {0, 1, 0xff, '\n'}},
	}
}

func mustCreate(t *testing.T, store journal.Store, obj journal.Object) journal.Object {
	t.Helper()
	created, err := store.Create(t.Context(), obj)
	if err != nil {
		t.Fatalf("create %q: %v", obj.Name, err)
	}
	return created
}

func wantStored(t *testing.T, store journal.Store, want journal.Object) {
	t.Helper()
	got, err := store.Get(t.Context(), want.Name)
	if err != nil {
		t.Fatalf("get %q: %v", want.Name, err)
	}
	if diff := cmp.Diff(want, got, serverFields); diff != "" {
		t.Errorf("stored object (-want +got):\n%s", diff)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
}

func testRoundTrip(t *testing.T, store journal.Store) {
	created := mustCreate(t, store, sample("one"))
	if created.ResourceVersion == "" {
		t.Error("created object has no resourceVersion")
	}
	wantStored(t, store, sample("one"))
}

func testCreateTwice(t *testing.T, store journal.Store) {
	mustCreate(t, store, sample("one"))
	other := sample("one")
	other.Data = map[string]string{"text": "other"}
	_, err := store.Create(t.Context(), other)
	wantError(t, err, journal.ErrExists)
	wantStored(t, store, sample("one"))
}

func testMissing(t *testing.T, store journal.Store) {
	_, err := store.Get(t.Context(), "none")
	wantError(t, err, journal.ErrNotFound)
	gone := mustCreate(t, store, sample("gone"))
	if err := store.Delete(t.Context(), "gone"); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantError(t, store.Delete(t.Context(), "gone"), journal.ErrNotFound)
	_, err = store.Update(t.Context(), gone)
	wantError(t, err, journal.ErrNotFound)
}

func testUpdateVersion(t *testing.T, store journal.Store) {
	first := mustCreate(t, store, sample("one"))
	first.Data = map[string]string{"text": "second"}
	second, err := store.Update(t.Context(), first)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	if second.ResourceVersion == first.ResourceVersion {
		t.Errorf("resourceVersion %q did not change", second.ResourceVersion)
	}
	stale := first
	stale.Data = map[string]string{"text": "stale"}
	_, err = store.Update(t.Context(), stale)
	wantError(t, err, journal.ErrConflict)
	unconditional := first
	unconditional.ResourceVersion = ""
	_, err = store.Update(t.Context(), unconditional)
	wantError(t, err, journal.ErrUnavailable)
	wantStored(t, store, second)
}

func testUpdateRace(t *testing.T, store journal.Store) {
	base := mustCreate(t, store, sample("one"))
	const writers = 16
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			mine := base
			mine.Data = map[string]string{"text": fmt.Sprint("writer ", i)}
			_, errs[i] = store.Update(t.Context(), mine)
		})
	}
	wg.Wait()
	winner := base
	for i, err := range errs {
		switch {
		case err == nil && winner.Data["text"] == base.Data["text"]:
			winner.Data = map[string]string{"text": fmt.Sprint("writer ", i)}
		case err == nil:
			t.Errorf("writer %d was stored as well", i)
		default:
			wantError(t, err, journal.ErrConflict)
		}
	}
	wantStored(t, store, winner)
}

func testTouch(t *testing.T, store journal.Store) {
	wantError(t, store.Touch(t.Context(), "one", "a"), journal.ErrNotFound)
	created := mustCreate(t, store, sample("one"))
	for _, mark := range []string{"a", "b"} {
		before, err := store.Get(t.Context(), "one")
		runtest.Check(t, err)
		if err := store.Touch(t.Context(), "one", mark); err != nil {
			t.Fatalf("touch: %v", err)
		}
		before.Data = map[string]string{"text": "changed"}
		_, err = store.Update(t.Context(), before)
		wantError(t, err, journal.ErrConflict)
	}
	wantStored(t, store, created)
}

func testImmutable(t *testing.T, store journal.Store) {
	obj := sample("fixed")
	obj.Immutable = true
	created := mustCreate(t, store, obj)
	created.Data = map[string]string{"text": "changed"}
	_, err := store.Update(t.Context(), created)
	wantError(t, err, journal.ErrUnavailable)
	wantStored(t, store, obj)
	if err := store.Delete(t.Context(), "fixed"); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func testTooLarge(t *testing.T, store journal.Store) {
	obj := sample("large")
	obj.Data = map[string]string{"text": strings.Repeat("x", maxObjectBytes)}
	_, err := store.Create(t.Context(), obj)
	wantError(t, err, journal.ErrUnavailable)
	fits := sample("fits")
	fits.Data = nil
	fits.Binary = map[string][]byte{"bytes": bytes.Repeat([]byte{0xff}, 512<<10)}
	mustCreate(t, store, fits)
	wantStored(t, store, fits)
}

func testList(t *testing.T, store journal.Store) {
	other := sample("a-other")
	other.Labels = map[string]string{journal.LabelJournal: "other"}
	mustCreate(t, store, other)
	for _, name := range []string{"c", "a", "b"} {
		mustCreate(t, store, sample(name))
	}
	found, err := store.List(t.Context(), sample("").Labels)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	var want []journal.Object
	for _, name := range []string{"a", "b", "c"} {
		want = append(want, journal.Object{Name: name, Labels: sample("").Labels})
	}
	if diff := cmp.Diff(want, found, serverFields); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func testContextEnded(t *testing.T, store journal.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := store.Create(ctx, sample("one"))
	wantError(t, err, journal.ErrUnavailable)
	_, err = store.Get(t.Context(), "one")
	wantError(t, err, journal.ErrNotFound)
}
