package trail

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// End is the last line of an export.
type End struct {
	// Journal is the random ID of the journal.
	Journal string `json:"journal"`
	// After is the position before the first record. Position is the position of the last record.
	After    uint64 `json:"after"`
	Position uint64 `json:"position"`
	// Hash is the hash of the chain at Position. An audit compares it with the anchors that agents
	// keep.
	Hash string `json:"hash"`
	// Lines is the SHA-256 of all earlier lines, in hexadecimal. Unlike the chain, it also covers
	// the fields that were derived from the records.
	Lines string `json:"lines"`
	// At is when the export was made.
	At time.Time `json:"at"`
	// Signed is a head of the journal that the broker has signed. It names one of the records of the export,
	// and proves this record and all before it. It is nil if no signed head names a record of the export.
	Signed *brokerv1alpha1.Receipt `json:"signed,omitempty"`
}

// Sign returns a signed head of the journal for the given place, nil if the broker cannot sign it.
type Sign func(journal.Place) *brokerv1alpha1.Receipt

type endLine struct {
	End *End `json:"end"`
}

// Line returns a record as one line of an export. The line contains the stored record byte for
// byte.
func Line(r *Record) ([]byte, error) {
	head := *r
	head.Record = json.RawMessage("null")
	text, err := json.Marshal(&head)
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", r.Position, err)
	}
	text = bytes.TrimSuffix(text, []byte("null}"))
	return append(append(text, r.Record...), "}\n"...), nil
}

// WriteExport writes consecutive records and the line that ends an export. heads are heads of the journal that
// the broker has signed: the export contains the newest one that names one of its records. WriteExport returns the
// end of the export.
func WriteExport(to io.Writer, journalID string, records []Record, at time.Time, heads []brokerv1alpha1.Receipt) (*End, error) {
	if len(records) == 0 {
		return nil, errors.New("nothing to export: the journal has no record in this time")
	}
	sum := sha256.New()
	out := bufio.NewWriter(to)
	for i := range records {
		line, err := Line(&records[i])
		if err != nil {
			return nil, err
		}
		sum.Write(line)
		if _, err := out.Write(line); err != nil {
			return nil, err
		}
	}
	last := &records[len(records)-1]
	end := &End{
		Journal: journalID, After: records[0].Position - 1, Position: last.Position, Hash: last.Hash,
		Lines: hex.EncodeToString(sum.Sum(nil)), At: at.UTC(), Signed: newestHead(journalID, records, heads),
	}
	if err := writeEnd(out, end); err != nil {
		return nil, err
	}
	return end, out.Flush()
}

func newestHead(journalID string, records []Record, heads []brokerv1alpha1.Receipt) *brokerv1alpha1.Receipt {
	var newest *brokerv1alpha1.Receipt
	position := uint64(0)
	for i := range heads {
		h, err := receipt.ReadHead(&heads[i])
		if err != nil || h.Head.ID != journalID || h.Head.Position <= position || h.Head.Position < records[0].Position {
			continue
		}
		at := h.Head.Position - records[0].Position
		if at < uint64(len(records)) && records[at].Hash == h.Head.Hash {
			newest, position = &heads[i], h.Head.Position
		}
	}
	return newest
}

func writeEnd(to io.Writer, end *End) error {
	text, err := json.Marshal(endLine{end})
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return err
}

// ErrDamaged is wrapped by the error of Finish if a line of the export was changed.
var ErrDamaged = errors.New("the export is damaged")

// Finish copies an export that has no end yet, adds the end, and returns it. Finish leaves out a last line that is
// not complete, because its writer was killed. If a complete line is not the next record of the export, Finish leaves
// it out with all lines after it, and also returns an error that wraps ErrDamaged. The returned end is nil if there is
// no record. sign signs the last record; nil to sign nothing.
func Finish(to io.Writer, from io.Reader, journalID string, at time.Time, sign Sign) (*End, error) {
	lines := bufio.NewReaderSize(from, maxBuffered)
	c := newChecker()
	var damage error
	for damage == nil {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		c.number++
		if err := c.addLine(bytes.TrimSuffix(line, []byte("\n"))); err != nil || c.end != nil {
			damage = fmt.Errorf("line %d: %w: %w", c.number, ErrDamaged, cmp.Or(err, errEarlyEnd))
			break
		}
		if _, err := to.Write(line); err != nil {
			return nil, err
		}
	}
	if c.last == nil {
		return nil, damage
	}
	end := &End{
		Journal: journalID, After: c.first.Position - 1, Position: c.last.Position, Hash: c.last.Hash,
		Lines: hex.EncodeToString(c.sum.Sum(nil)), At: at.UTC(),
	}
	if sign != nil {
		end.Signed = sign(journal.Place{Journal: journalID, Position: end.Position, Hash: end.Hash})
	}
	if err := writeEnd(to, end); err != nil {
		return nil, err
	}
	return end, damage
}

// maxBuffered is the size of the buffer with which Finish reads, in bytes.
const maxBuffered = 64 << 10

var errEarlyEnd = errors.New("it has an end already")

// maxLine is the maximum length of a line of an export in bytes.
const maxLine = 4 * journal.MaxRecordBytes

// Checked describes an export that was verified.
type Checked struct {
	journal.Verified
	// Before is the hash of the chain before the first record.
	Before string
	// Signed is the signed head in the export, nil if it has none. Its place is that of one of the records.
	// CheckExport does not verify its signature.
	Signed *brokerv1alpha1.Receipt
}

// CheckExport verifies an export. Every record must match its hash, no record may be missing, the
// other fields of each line must match its record, and the hash over all lines must be right. It
// returns the verified records, and the hash at each position for journal.CompareAnchors. The export may
// be compressed with gzip.
func CheckExport(from io.Reader) (Checked, map[uint64]string, error) {
	text, err := unzip(from)
	if err != nil {
		return Checked{}, nil, err
	}
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLine)
	c := newChecker()
	for lines.Scan() {
		c.number++
		if err := c.addLine(lines.Bytes()); err != nil {
			return Checked{}, nil, fmt.Errorf("line %d: %w", c.number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Checked{}, nil, fmt.Errorf("line %d: %w", c.number+1, err)
	}
	if c.end == nil {
		return Checked{}, nil, fmt.Errorf("line %d: the export is cut off: its last line has no end", c.number)
	}
	return Checked{
		Verified: journal.Verified{ID: c.end.Journal, After: c.end.After, Head: c.end.Position, Segments: 1, Records: len(c.places)},
		Before:   c.first.Prev, Signed: c.end.Signed,
	}, c.places, nil
}

func unzip(from io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(from)
	if magic, err := buffered.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return buffered, nil // an error here means that the text is too short to be an export, which the caller notices
	}
	return gzip.NewReader(buffered)
}

// checker verifies an export line by line.
type checker struct {
	number int
	sum    interface {
		io.Writer
		Sum([]byte) []byte
	}
	first, last *Record
	end         *End
	places      map[uint64]string
	// parties holds the cluster that earlier lines named for each party.
	parties map[party]string
}

// party identifies the provider of a placement, or the requester of a reservation, which has no placement.
type party struct {
	reservation string
	placement   int32
}

func newChecker() checker {
	return checker{sum: sha256.New(), places: map[uint64]string{}, parties: map[party]string{}}
}

func (c *checker) addLine(line []byte) error {
	if c.end != nil {
		return errors.New("there is a line after the end of the export")
	}
	if bytes.HasPrefix(line, []byte(`{"end":`)) {
		return c.checkEnd(line)
	}
	r := &Record{}
	if err := json.Unmarshal(line, r); err != nil {
		return fmt.Errorf("it is no record: %w", err)
	}
	if c.last != nil && (r.Position != c.last.Position+1 || r.Prev != c.last.Hash) {
		return fmt.Errorf("record %d does not follow record %d: a record was removed, inserted or exchanged", r.Position, c.last.Position)
	}
	if err := r.checkLine(line, c.parties); err != nil {
		return err
	}
	_, _ = c.sum.Write(line) // writing to a hash cannot fail
	_, _ = c.sum.Write([]byte("\n"))
	if c.first == nil {
		c.first = r
	}
	c.last, c.places[r.Position] = r, r.Hash
	return nil
}

func (c *checker) checkEnd(line []byte) error {
	var end endLine
	if err := json.Unmarshal(line, &end); err != nil {
		return fmt.Errorf("the end of the export cannot be read: %w", err)
	}
	e := end.End
	switch {
	case e == nil:
		return errors.New("the end of the export is empty")
	case c.last == nil || e.After != c.first.Position-1 || e.Position != c.last.Position || e.Hash != c.last.Hash:
		return fmt.Errorf("the export ends at position %d, and records are missing before", e.Position)
	case e.Lines != hex.EncodeToString(c.sum.Sum(nil)):
		return errors.New("the lines do not match their sum: a field outside of a record was edited")
	}
	c.end = e
	if e.Signed == nil {
		return nil
	}
	h, err := receipt.ReadHead(e.Signed)
	if err != nil {
		return err
	}
	if h.Head.ID != e.Journal || c.places[h.Head.Position] != h.Head.Hash {
		return fmt.Errorf("the broker has signed record %d of journal %s with hash %.16s at %s, which is not the record in the export: the export was edited, or the journal was restored", h.Head.Position, h.Head.ID, h.Head.Hash, h.SignedAt.Format(time.RFC3339))
	}
	return nil
}

// chainKind returns the kind that the journal's chain of hashes uses for the record.
func (r *Record) chainKind() string {
	if r.Kind == "open" || r.Kind == "checkpoint" {
		return r.Kind
	}
	return journalKind
}

// checkLine returns an error if the record does not match its hash, or if other fields of its line
// do not match the record and the parties that earlier lines named. It adds the parties of the line.
func (r *Record) checkLine(line []byte, parties map[party]string) error {
	hash, err := journal.NextHash(r.Prev, r.Position, r.chainKind(), r.Record)
	if err != nil {
		return fmt.Errorf("record %d: %w", r.Position, err)
	}
	if hash != r.Hash {
		return fmt.Errorf("record %d was edited: it has the hash %.16s, and %.16s is named", r.Position, hash, r.Hash)
	}
	e := &journal.Entry{Position: r.Position, Kind: r.chainKind(), Data: r.Record, Prev: r.Prev, Hash: r.Hash}
	said, err := Describe(e, claimed{r, parties})
	if err != nil {
		return err
	}
	if text, err := Line(said); err != nil || !bytes.Equal(bytes.TrimSuffix(text, []byte("\n")), line) {
		return fmt.Errorf("record %d is not what its line says", r.Position)
	}
	if r.Requester != "" {
		parties[party{r.Reservation, 0}] = r.Requester
	}
	if r.Provider != "" && r.Placement != 0 {
		parties[party{r.Reservation, r.Placement}] = r.Provider
	}
	return nil
}

// claimed is the Context with which a line is checked. It returns the parties that earlier lines named,
// or else those that the line names, because the record itself may not name them.
type claimed struct {
	*Record
	parties map[party]string
}

// Parties implements Context.
func (c claimed) Parties(string, int32) (requester, provider string, number int32) {
	if c.Requester != "" { // a record before the oldest checkpoint may lack its parties
		requester = cmp.Or(c.parties[party{c.Reservation, 0}], c.Requester)
	}
	if provider = c.Provider; provider != "" && c.Placement != 0 {
		provider = cmp.Or(c.parties[party{c.Reservation, c.Placement}], provider)
	}
	return requester, provider, c.Placement
}
