package outbox

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

const (
	// defaultFile is the size in bytes from which a file is sealed. A file is also sealed with the first
	// record of another day.
	defaultFile = 16 << 20
	// sealedSuffix is the suffix of complete files, openSuffix that of files to which records are still appended.
	sealedSuffix = ".jsonl.gz"
	openSuffix   = ".jsonl"
	// damagedSuffix is added to the names of open files in which a line was changed by another program.
	damagedSuffix = ".damaged"
	// unfinishedSuffix is the suffix of files that are being written and may be incomplete.
	unfinishedSuffix = ".tmp"
	// stampLayout is the format of the time in the name of a file, at which the file was begun. With this format, names
	// sort in the order of time.
	stampLayout = "20060102T150405.000Z"
	// fileMode and folderMode let the group of the volume (fsGroup) read files, for example for a log shipper.
	fileMode   = 0o640
	folderMode = 0o750
)

// files writes the records of channels to files: DIRECTORY/CHANNEL/JOURNAL/TIME-FIRST-LAST.jsonl.gz. Each of
// them is an export that `kubectl broker audit verify` verifies.
//
// The newest records are in an open file TIME-WRITER.jsonl. A new writer takes this file over: it renames the file,
// which the former writer notices, seals the complete lines and continues after them. So no record is lost or repeated
// when a writer is killed, and no two writers append to the same file.
type files struct {
	opts *Options
	// writer is the random name of this writer.
	writer string
	// maxFile is defaultFile, except in tests.
	maxFile int64

	// mu guards the fields below.
	mu sync.Mutex
	// archives has the archive of each channel that writes files, by folder.
	archives map[string]*archive
}

func newFiles(opts *Options) *files {
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails, see crypto/rand
	return &files{opts: opts, writer: hex.EncodeToString(id), maxFile: defaultFile, archives: map[string]*archive{}}
}

// archive has the files of one channel with records of one journal.
type archive struct {
	f         *files
	folder    string
	journalID string
	keepDays  int

	// busy holds a value while files are read or written.
	busy chan struct{}
	// end is the place of the last record in the files, the zero Place if there is none. It and the fields
	// below are right as long as open belongs to this writer.
	end journal.Place
	// appended is the place of the last record that this writer has appended itself, the zero Place if there is none.
	// Unlike end, it is never read from a file, which another process may have written.
	appended journal.Place
	// newest is the time in the name of the newest file.
	newest string
	// open is the file that is written to, nil if there is none.
	open   *os.File
	size   int64
	opened time.Time
}

// resume takes over the files of a channel, and returns the place of the last record in them. It is the zero
// Place if there is none.
func (f *files) resume(ctx context.Context, c *notify.Channel, journalID string) (journal.Place, error) {
	return f.use(ctx, c, journalID, (*archive).takeOver)
}

// send writes records, and returns nil once they are on the disk. For a test event, it writes an empty file to the
// channel's folder and removes it.
func (f *files) send(ctx context.Context, c *notify.Channel, journalID string, events []notify.Event) error {
	if events[0].Record == nil {
		_, err := f.use(ctx, c, "", (*archive).tryFolder)
		return err
	}
	_, err := f.use(ctx, c, journalID, func(a *archive) error {
		err := a.takeOver()
		if err == nil {
			err = a.write(events)
		}
		if err != nil {
			a.forget()
		}
		return err
	})
	return err
}

// use calls the function do with the archive of a channel, and returns the place of the last record in the channel's
// files. If the volume does not answer in time, use returns an error although do still runs. Until do has returned,
// further calls for this channel fail; other channels are not affected.
func (f *files) use(ctx context.Context, c *notify.Channel, journalID string, do func(*archive) error) (journal.Place, error) {
	if f.opts.Directory == "" {
		return journal.Place{}, errors.New("the broker has no volume for files: set the chart's value export.enabled, or the broker's flag --export-directory")
	}
	a := f.archiveOf(c, journalID)
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	type result struct {
		end journal.Place
		err error
	}
	done := make(chan result, 1)
	select {
	case a.busy <- struct{}{}:
		go func() {
			a.keepDays = c.Files.KeepDays
			err := do(a)
			done <- result{a.end, err}
			<-a.busy
		}()
	case <-limited.Done():
	}
	select {
	case r := <-done:
		return r.end, r.err
	case <-limited.Done():
		return journal.Place{}, fmt.Errorf("%s: the volume does not answer: %w", f.opts.Directory, limited.Err())
	}
}

func (f *files) archiveOf(c *notify.Channel, journalID string) *archive {
	folder := filepath.Join(f.opts.Directory, c.Name, journalID)
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.archives[folder]
	if a == nil {
		a = &archive{f: f, folder: folder, journalID: journalID, busy: make(chan struct{}, 1)}
		f.archives[folder] = a
	}
	return a
}

// tryFolder returns an error unless the folder can be written.
func (a *archive) tryFolder() error {
	if err := os.MkdirAll(a.folder, folderMode); err != nil {
		return err
	}
	name := a.path("test-" + a.f.writer + unfinishedSuffix)
	if err := writeSynced(name, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	return os.Remove(name)
}

// forget closes the open file. The next call reads the folder again.
func (a *archive) forget() {
	if a.open != nil {
		_ = a.open.Close() // an error does not matter, because the file is read again before it is used
	}
	a.open = nil
}

// takeOver seals the open files that earlier writers left, and finds the end of the newest file. It does
// nothing while the open file belongs to this writer.
func (a *archive) takeOver() error {
	if a.open != nil && a.stillOwns() == nil {
		return nil
	}
	a.forget()
	if err := os.MkdirAll(a.folder, folderMode); err != nil {
		return err
	}
	names, err := a.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, unfinishedSuffix):
			err = os.Remove(a.path(name))
		case strings.HasSuffix(name, openSuffix):
			err = a.claim(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // if the file is gone, another writer has taken it over
			return err
		}
	}
	if names, err = a.list(); err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, sealedSuffix) })
	a.end, a.newest = journal.Place{}, ""
	if len(names) > 0 {
		last := names[len(names)-1]
		a.newest, _, _ = strings.Cut(last, "-")
		if a.end, err = a.endOf(last); err != nil {
			// The courier continues from its cursor.
			a.f.opts.Log.Error(err, "an exported file is damaged", "file", a.path(last))
		}
	}
	return nil
}

func (a *archive) path(name string) string { return filepath.Join(a.folder, name) }

// list returns the names of all files, sorted.
func (a *archive) list() ([]string, error) {
	entries, err := os.ReadDir(a.folder)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (a *archive) endOf(name string) (journal.Place, error) {
	file, err := os.Open(a.path(name))
	if err != nil {
		return journal.Place{}, err
	}
	defer func() { _ = file.Close() }()
	verified, places, err := trail.CheckExport(file)
	if err != nil {
		return journal.Place{}, err
	}
	return journal.Place{Journal: verified.ID, Position: verified.Head, Hash: places[verified.Head]}, nil
}

func (a *archive) claim(name string) error {
	stamp, _, _ := strings.Cut(name, "-")
	own := stamp + "-" + a.f.writer + openSuffix
	if err := os.Rename(a.path(name), a.path(own)); err != nil {
		return err
	}
	return a.seal(own)
}

// seal writes the complete lines of an open file to a compressed file, and removes the open file. If a line of
// the open file was changed, seal keeps this file under a name with damagedSuffix. Whether it succeeds or not, seal
// deletes the files that the channel no longer has to keep, so that a full volume has room for the next attempt.
func (a *archive) seal(name string) error {
	defer a.deleteOld()
	from, err := os.Open(a.path(name))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	unfinished := a.path(name + unfinishedSuffix)
	var end *trail.End
	var damage error
	err = writeSynced(unfinished, func(to io.Writer) error {
		packed := gzip.NewWriter(to)
		end, damage = trail.Finish(packed, from, a.journalID, a.f.opts.Now(), a.signEnd)
		if damage != nil && !errors.Is(damage, trail.ErrDamaged) {
			return damage
		}
		return packed.Close()
	})
	if err != nil {
		return err
	}
	if err := cmp.Or(a.publishSealed(unfinished, name, end), a.syncFolder()); err != nil {
		return err
	}
	failpoint.Hit(failpoint.FileSealed)
	if damage != nil {
		a.f.opts.Log.Error(damage, "an exported file is damaged, its lines up to there are kept", "file", a.path(name+damagedSuffix))
		return os.Rename(a.path(name), a.path(name+damagedSuffix))
	}
	return os.Remove(a.path(name))
}

// publishSealed gives the unfinished file made of an open file the name of a complete one. Complete files never change:
// if a killed writer has sealed the same records before, or if there are none, publishSealed removes the unfinished file.
func (a *archive) publishSealed(unfinished, name string, end *trail.End) error {
	if end == nil {
		return os.Remove(unfinished)
	}
	stamp, _, _ := strings.Cut(name, "-")
	sealed := fmt.Sprintf("%s-%016d-%016d%s", stamp, end.After+1, end.Position, sealedSuffix)
	if known, err := a.endOf(sealed); err == nil && known == (journal.Place{Journal: end.Journal, Position: end.Position, Hash: end.Hash}) {
		return os.Remove(unfinished)
	}
	return os.Rename(unfinished, a.path(sealed))
}

// signEnd signs the end of a file if this writer has read its last record from the journal. It signs no file of
// another writer, because whoever can write to the volume may have made it.
func (a *archive) signEnd(end journal.Place) *brokerv1alpha1.Receipt {
	if a.f.opts.SignHead == nil || end != a.appended {
		return nil
	}
	return a.f.opts.SignHead(end)
}

// writeSynced makes a file, and returns once its content is on the disk.
func writeSynced(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder returns once the names of the files are on the disk.
func (a *archive) syncFolder() error {
	folder, err := os.Open(a.folder)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// write appends records to the open file, without those that it has already. It returns nil once all of
// them are on the disk, and the file still belongs to this writer.
func (a *archive) write(events []notify.Event) error {
	known := slices.IndexFunc(events, func(e notify.Event) bool {
		return e.Record.Position == a.end.Position && e.Record.Hash == a.end.Hash
	})
	for _, e := range events[known+1:] {
		if err := a.append(e.Record); err != nil {
			return err
		}
	}
	if a.open == nil {
		return nil // the files contain all these records already
	}
	failpoint.Hit(failpoint.FileWritten)
	if err := a.open.Sync(); err != nil {
		return err
	}
	return a.stillOwns()
}

// append appends a record. It begins another file if the open one is full, if a day has ended, or if the
// record does not follow the last one.
func (a *archive) append(r *trail.Record) error {
	endedDay := a.opened.UTC().Format(time.DateOnly) != a.f.opts.Now().UTC().Format(time.DateOnly)
	if a.open != nil && (a.size >= a.f.maxFile || r.Prev != a.end.Hash || endedDay) {
		if err := a.finish(); err != nil {
			return err
		}
	}
	if a.open == nil {
		if err := a.begin(); err != nil {
			return err
		}
	}
	line, err := trail.Line(r)
	if err != nil {
		return err
	}
	if _, err := a.open.Write(line); err != nil {
		return err
	}
	a.size += int64(len(line))
	a.end = journal.Place{Journal: a.journalID, Position: r.Position, Hash: r.Hash}
	a.appended = a.end
	return nil
}

// begin makes the next open file. Its name sorts after the names of all other files, even if the clock is slow.
func (a *archive) begin() error {
	now := a.f.opts.Now().UTC()
	if last, err := time.Parse(stampLayout, a.newest); err == nil && !now.After(last) {
		now = last.Add(time.Millisecond)
	}
	stamp := now.Format(stampLayout)
	file, err := os.OpenFile(a.path(stamp+"-"+a.f.writer+openSuffix), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	a.open, a.size, a.opened, a.newest = file, 0, a.f.opts.Now(), stamp // the time in the name may be late, see above
	return a.syncFolder()
}

// finish seals the open file.
func (a *archive) finish() error {
	if err := cmp.Or(a.open.Sync(), a.stillOwns()); err != nil {
		return err
	}
	name := filepath.Base(a.open.Name())
	if err := a.open.Close(); err != nil {
		return err
	}
	a.open = nil
	return a.seal(name)
}

// deleteOld deletes the complete files all of whose records are older than KeepDays of the channel.
func (a *archive) deleteOld() {
	if a.keepDays == 0 {
		return
	}
	names, err := a.list()
	first := a.f.opts.Now().UTC().AddDate(0, 0, -a.keepDays-1).Format(stampLayout)
	for _, name := range names {
		if name < first && strings.HasSuffix(name, sealedSuffix) {
			err = errors.Join(err, os.Remove(a.path(name)))
		}
	}
	if err != nil {
		a.f.opts.Log.Error(err, "deleting old exported files failed", "folder", a.folder)
	}
}

// stillOwns returns an error if another writer has taken the open file over.
func (a *archive) stillOwns() error {
	own, err := a.open.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(a.open.Name()); err != nil || !os.SameFile(own, named) {
		return fmt.Errorf("%s: another replica writes the files now", a.folder)
	}
	return nil
}
