package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func archiveChannel(keepDays int) notify.Channel {
	return notify.Channel{Name: "archive", Events: []string{string(notify.Record)}, Files: &notify.Files{KeepDays: keepDays}}
}

// exported returns the positions of the records in the files of a directory, in the order of the files.
// Every complete file must be an export, and every open one must have the lines of one.
func exported(directory, journalID string) ([]uint64, error) {
	var out []uint64
	names, err := filepath.Glob(filepath.Join(directory, "archive", journalID, "*"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, openSuffix) {
			var whole bytes.Buffer
			if end, err := trail.Finish(&whole, bytes.NewReader(text), journalID, time.Now(), nil); err != nil || end == nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			text = whole.Bytes()
		}
		verified, places, err := trail.CheckExport(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if verified.ID != journalID || uint64(len(places)) != verified.Head-verified.After {
			return nil, fmt.Errorf("%s has %d records of %d to %d", name, len(places), verified.After+1, verified.Head)
		}
		for p := verified.After + 1; p <= verified.Head; p++ {
			out = append(out, p)
		}
	}
	return out, nil
}

// checkComplete returns a problem unless the positions are those up to the newest record, without gaps. If once is
// true, no position may be there twice.
func checkComplete(positions []uint64, newest uint64, once bool) string {
	if !once {
		positions = slices.Compact(slices.Sorted(slices.Values(positions)))
	}
	for i, p := range positions {
		if i > 0 && p != positions[i-1]+1 {
			return fmt.Sprintf("record %d follows record %d", p, positions[i-1])
		}
	}
	if len(positions) == 0 || positions[len(positions)-1] != newest {
		return fmt.Sprintf("the files have the records %v, and the newest is %d", positions, newest)
	}
	return ""
}

// tear appends the beginning of a line to each open file, as a writer does that is killed.
func tear(directory string) error {
	names, err := filepath.Glob(filepath.Join(directory, "archive", "*", "*"+openSuffix))
	for _, name := range names {
		file, opened := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if opened != nil {
			return opened
		}
		_, written := file.WriteString(`{"position":12,"time":"20`)
		err = errors.Join(err, written, file.Close())
	}
	return err
}

// Whatever is killed, and whenever, the files have every record in order. Unless two leaders write at the
// same time, they have it once.
func TestFilesHaveEveryRecordWhateverIsKilled(t *testing.T) {
	kinds := []string{"join", "join", "join", "kill", "tear", "takeover", "rival", "wait", "day", "checkpoint"}
	for seed := range uint64(8) { // few, because every step waits for the disk
		draw := rand.New(rand.NewPCG(seed, 1))
		steps, waits := make([]string, 12), make([]int, 12)
		for i := range steps {
			steps[i], waits[i] = kinds[draw.IntN(len(kinds))], draw.IntN(3000)
		}
		directory := t.TempDir()
		problem := ""
		synctest.Test(t, func(*testing.T) { problem = playExport(directory, steps, waits) })
		if problem != "" {
			t.Errorf("seed %d: %s\nafter %v %v", seed, problem, steps, waits)
		}
	}
}

func playExport(directory string, steps []string, waits []int) string {
	w := newWorld()
	w.directory = directory
	defer func() { w.stop() }()
	_, kill := w.start(archiveChannel(0))
	defer func() { kill() }()
	hadRivals, endRival := false, func() {}
	rest(2 * time.Second)
	for i, step := range steps {
		if step != "join" { // a former leader soon knows that it was replaced
			endRival()
			endRival = func() {}
		}
		switch step {
		case "join":
			w.join(1 + waits[i]%40)
		case "kill":
			kill()
			_, kill = w.start(archiveChannel(0))
		case "tear":
			kill()
			if err := tear(directory); err != nil {
				return err.Error()
			}
			_, kill = w.start(archiveChannel(0))
		case "takeover":
			w.stop()
			w.takeOver()
		case "rival": // the former leader does not know yet that it was replaced
			hadRivals, endRival = true, kill
			_, kill = w.start(archiveChannel(0))
		case "wait":
			rest(time.Duration(waits[i]) * time.Millisecond)
		case "day":
			rest(10 * time.Second)
			w.skip(24 * time.Hour)
		case "checkpoint":
			if w.position > 0 {
				w.checkpoint()
			}
		}
	}
	endRival()
	w.join(1)
	rest(2 * lastRetry)
	kill() // so that the files do not change during the checks
	positions, err := exported(directory, w.writer.ID())
	if err != nil {
		return err.Error()
	}
	return checkComplete(positions, w.position, !hadRivals)
}

// The volume is slow while the writer seals a file. A write that outlives its context does no harm: within the process,
// the next writes wait for it; another process takes its file away.
func TestFilesHaveEveryRecordOnceAfterASlowWrite(t *testing.T) {
	for name, meanwhile := range map[string]string{"the same process goes on": "", "another process takes over": "kill", "the channel is changed": "change"} {
		directory := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.directory = directory
			var slow atomic.Bool
			w.sign = func(journal.Place) *brokerv1alpha1.Receipt {
				if slow.Load() {
					time.Sleep(2 * sendTimeout)
				}
				return nil
			}
			defer w.stop()
			o, kill := w.start(archiveChannel(0))
			rest(2 * time.Second)
			w.join(3)
			rest(2 * time.Second)
			slow.Store(true)
			w.join(40) // more than a file holds
			rest(2 * time.Second)
			slow.Store(false)
			switch meanwhile {
			case "kill":
				go kill()
				synctest.Wait()
				_, kill = w.start(archiveChannel(0))
				rest(2 * time.Second)
				w.join(1)
			case "change":
				runtest.Check(t, o.SetChannels([]notify.Channel{archiveChannel(1)}))
			}
			rest(2 * time.Minute)
			kill()
			positions, err := exported(directory, w.writer.ID())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if problem := checkComplete(positions, w.position, true); problem != "" {
				t.Errorf("%s: %s", name, problem)
			}
		})
	}
}

func TestFilesAreSealedBySizeAndDayAndDeletedWhenTheirTimeIsOver(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.directory = directory
		defer w.stop()
		_, kill := w.start(archiveChannel(2))
		defer kill()
		rest(2 * time.Second)
		count := func() (sealed, open int) {
			names, err := filepath.Glob(filepath.Join(directory, "archive", w.writer.ID(), "*"))
			runtest.Check(t, err)
			for _, name := range names {
				if strings.HasSuffix(name, sealedSuffix) {
					sealed++
				} else {
					open++
				}
			}
			return sealed, open
		}
		w.join(3)
		rest(2 * time.Second)
		if sealed, open := count(); sealed != 0 || open != 1 {
			t.Fatalf("after a few records: %d complete files, %d others", sealed, open)
		}
		w.join(40)
		rest(2 * time.Second)
		bySize, open := count()
		if bySize == 0 || open != 1 {
			t.Fatalf("after many records: %d complete files, %d others", bySize, open)
		}
		w.skip(25 * time.Hour)
		w.join(1)
		rest(2 * time.Second)
		if sealed, _ := count(); sealed != bySize+1 {
			t.Fatalf("after a day: %d complete files, want %d", sealed, bySize+1)
		}
		w.skip(60 * time.Hour)
		w.join(1)
		rest(2 * time.Second)
		if sealed, _ := count(); sealed != 1 {
			t.Fatalf("two days after the last file of the first day: %d complete files, want only the second day's", sealed)
		}
	})
}

// The clock of the broker was two days ahead for a while.
func TestFilesAreNotSealedForEachRecordAfterTheClockWasAhead(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.directory = directory
		defer w.stop()
		_, kill := w.start(archiveChannel(0))
		defer kill()
		for _, ahead := range []time.Duration{48 * time.Hour, -48 * time.Hour, 0, 0, 0} {
			w.skip(ahead)
			w.join(1)
			rest(2 * time.Second)
		}
		sealed, err := filepath.Glob(filepath.Join(directory, "archive", w.writer.ID(), "*"+sealedSuffix))
		runtest.Check(t, err)
		if len(sealed) > 2 {
			t.Errorf("%d files are sealed, want one when the clock went ahead and one when it went back", len(sealed))
		}
	})
}

func TestEditedOpenFileIsSetAsideAndItsRecordsAreWrittenAgain(t *testing.T) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.directory = directory
		defer w.stop()
		name := w.writeOpenFile(t, 6)
		text, err := os.ReadFile(name)
		runtest.Check(t, err)
		runtest.Check(t, os.WriteFile(name, bytes.Replace(text, []byte(`"clusterID":"c3"`), []byte(`"clusterID":"c9"`), 1), 0o600))
		_, kill := w.start(archiveChannel(0))
		rest(2 * time.Second)
		kill()
		damaged, err := filepath.Glob(filepath.Join(directory, "archive", "*", "*"+damagedSuffix))
		if err != nil || len(damaged) != 1 {
			t.Fatal(damaged, err)
		}
		runtest.Check(t, os.Remove(damaged[0]))
		positions, err := exported(directory, w.writer.ID())
		runtest.Check(t, err)
		if problem := checkComplete(positions, w.position, true); problem != "" {
			t.Error(problem)
		}
	})
}

// writeOpenFile has a writer export records until it is killed, and returns the name of its open file.
func (w *world) writeOpenFile(t *testing.T, records int) string {
	t.Helper()
	_, kill := w.start(archiveChannel(0))
	rest(2 * time.Second)
	w.join(records)
	rest(2 * time.Second)
	kill()
	names, err := filepath.Glob(filepath.Join(w.directory, "archive", w.writer.ID(), "*"+openSuffix))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	return names[0]
}

// writtenFile returns the text of an open file, and the ID of its journal.
func writtenFile(t *testing.T) (open []byte, journalID string) {
	directory := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.directory, journalID = directory, w.writer.ID()
		defer w.stop()
		var err error
		open, err = os.ReadFile(w.writeOpenFile(t, 3))
		runtest.Check(t, err)
	})
	return open, journalID
}

// Whoever can write to the volume must not get a signature of the broker for records that are not in its journal.
func TestFilesThatOthersMadeAreNotSigned(t *testing.T) {
	open, journalID := writtenFile(t)
	f := newFiles(&Options{Directory: t.TempDir(), Now: time.Now, Log: logr.Discard(), SignHead: func(at journal.Place) *brokerv1alpha1.Receipt {
		t.Errorf("%+v was signed", at)
		return nil
	}})
	c := archiveChannel(0)
	a := f.archiveOf(&c, journalID)
	runtest.Check(t, os.MkdirAll(a.folder, folderMode))
	for i := range 2 { // the first time, the end of the files is not known before
		runtest.Check(t, os.WriteFile(a.path(fmt.Sprintf("20260101T00000%d.000Z-other%s", i, openSuffix)), open, fileMode))
		end, err := f.resume(t.Context(), &c, journalID)
		if err != nil || end.Position == 0 {
			t.Fatal(end, err)
		}
	}
}

// A writer was killed after it had sealed a file, and before it removed the open one.
func TestCompleteFilesNeverChange(t *testing.T) {
	open, journalID := writtenFile(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := newFiles(&Options{Directory: t.TempDir(), Now: func() time.Time { return now }, Log: logr.Discard()})
	c := archiveChannel(0)
	a := f.archiveOf(&c, journalID)
	runtest.Check(t, os.MkdirAll(a.folder, folderMode))
	var before []byte
	for range 2 {
		runtest.Check(t, os.WriteFile(a.path("20260101T000000.000Z-other"+openSuffix), open, fileMode))
		_, err := f.resume(t.Context(), &c, journalID)
		runtest.Check(t, err)
		names, err := a.list()
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		text, err := os.ReadFile(a.path(names[0]))
		runtest.Check(t, err)
		if before != nil && !bytes.Equal(before, text) {
			t.Errorf("%s has changed", names[0])
		}
		before, now = text, now.Add(time.Hour)
	}
}

// Files are complete only once they are sealed, for which a full volume has no room.
func TestOldFilesAreDeletedAlsoIfNoFileCanBeSealed(t *testing.T) {
	f := newFiles(&Options{Directory: t.TempDir(), Now: time.Now, Log: logr.Discard()})
	f.writer = "writer" // after "other", whose file is sealed first
	c := archiveChannel(30)
	a := f.archiveOf(&c, "journal")
	old := a.path("20200101T000000.000Z-0000000000000001-0000000000000002" + sealedSuffix)
	runtest.Check(t, os.MkdirAll(a.path("20260101T000000.000Z-"+f.writer+openSuffix+unfinishedSuffix), folderMode)) // a file that cannot be written
	runtest.Check(t, os.WriteFile(a.path("20260101T000000.000Z-other"+openSuffix), nil, fileMode))
	runtest.Check(t, os.WriteFile(old, nil, fileMode))
	if _, err := f.resume(t.Context(), &c, "journal"); err == nil {
		t.Fatal("the file was sealed")
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of 2020 was kept: %v", err)
	}
}

func TestTestOfAChannelStaysInItsFolder(t *testing.T) {
	around := t.TempDir()
	o := New(Options{Now: time.Now, Directory: filepath.Join(around, "volume")})
	o.channels = []notify.Channel{archiveChannel(0)}
	runtest.Check(t, o.Test(t.Context(), "archive", "x/../../../outside/y"))
	if _, err := os.Stat(filepath.Join(around, "outside")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder outside of the volume was made: %v", err)
	}
}

func TestChannelOfFilesWithoutAVolumeSaysWhatIsMissing(t *testing.T) {
	o := New(Options{Now: time.Now})
	c := archiveChannel(0)
	o.channels = []notify.Channel{c}
	err := o.Test(t.Context(), "archive", "first")
	if err == nil || !strings.Contains(err.Error(), "set the chart's value export.enabled") {
		t.Errorf("without a volume: %v", err)
	}
	o.opts.Directory = t.TempDir()
	if err := o.Test(t.Context(), "archive", "first"); err != nil {
		t.Errorf("with a volume: %v", err)
	}
}
