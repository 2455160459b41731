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

// pack writes lines into one gzip file that grows with every batch. Lines resemble each other,
// so a batch takes about a sixth of its original length. pack continues the file instead of
// rewriting it, so the cost of a batch does not depend on the length of the file.
type pack struct {
	deflate *flate.Writer
	// begun is the file so far, without the end that addLines appends.
	begun bytes.Buffer
	sum   uint32
	lines int
	// batches counts how often the file was continued.
	batches int
}

// packHead begins every file: gzip, deflated, without name, time or system. packEnd ends the
// data: an empty last block.
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

func (p *pack) resetFile() {
	p.begun.Reset()
	p.begun.Write(packHead)
	p.deflate.Reset(&p.begun)
	p.sum, p.lines, p.batches = 0, 0, 0
}

// addLines appends lines to the file and returns the whole file. Writing to memory cannot fail.
func (p *pack) addLines(lines []byte) []byte {
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

func unpackLines(file []byte) (string, error) {
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
