package journal

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// pack writes lines into one gzip file that grows by every batch. Lines are much alike,
// so a batch takes about a sixth of its length, and since the file is continued instead
// of written anew, packing it costs no more the longer the file is.
type pack struct {
	deflate *flate.Writer
	// begun is the file up to the last batch; it lacks its end.
	begun bytes.Buffer
	sum   uint32
	lines int
	// batches is how often the file was continued.
	batches int
}

// What every file begins with: gzip, deflated, no name, no time, no system. And what
// ends its data: an empty last block.
var (
	packHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}
	packEnd  = []byte{3, 0}
)

func newPack() *pack {
	p := &pack{}
	p.deflate, _ = flate.NewWriter(&p.begun, flate.DefaultCompression) // the level exists
	p.begun.Write(packHead)
	return p
}

// reset begins a new file.
func (p *pack) reset() {
	p.begun.Reset()
	p.begun.Write(packHead)
	p.deflate.Reset(&p.begun)
	p.sum, p.lines, p.batches = 0, 0, 0
}

// add continues the file and returns the whole of it. Memory takes all that is written.
func (p *pack) add(lines []byte) []byte {
	_, _ = p.deflate.Write(lines)
	_ = p.deflate.Flush()
	p.sum = crc32.Update(p.sum, crc32.IEEETable, lines)
	p.lines += len(lines)
	p.batches++
	whole := make([]byte, 0, p.begun.Len()+len(packEnd)+8)
	whole = append(append(whole, p.begun.Bytes()...), packEnd...)
	whole = binary.LittleEndian.AppendUint32(whole, p.sum)
	return binary.LittleEndian.AppendUint32(whole, uint32(p.lines)) //nolint:gosec // modulo 2^32, as gzip has it
}

// unpack reads a whole file.
func unpack(file []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return "", fmt.Errorf("records are not packed: %w", err)
	}
	lines, err := io.ReadAll(r)
	if err != nil {
		return "", fmt.Errorf("records cannot be unpacked: %w", err)
	}
	return string(lines), nil
}
