package journal

import (
	"fmt"
	"testing"
)

// TestPack unpacks the file after every batch. The file must be complete each time, and small
// if lines are similar.
func TestPack(t *testing.T) {
	p := newPack()
	for _, begin := range []string{"first", "second"} {
		lines, file := "", []byte(nil)
		for n := range 100 {
			batch := ""
			for k := range n % 4 {
				batch += fmt.Sprintf("{%q:{\"number\":%d,\"requester\":\"a cluster\",\"provider\":\"another cluster\"}}\n", begin, 100*n+k)
			}
			lines += batch
			file = p.addLines([]byte(batch))
			got, err := unpackLines(file)
			if err != nil {
				t.Fatalf("after batch %d: %v", n, err)
			}
			if got != lines || p.lines != len(lines) {
				t.Fatalf("after batch %d: got %q, want %q", n, got, lines)
			}
		}
		if len(file) > len(lines)/3 {
			t.Errorf("%d bytes were packed into %d", len(lines), len(file))
		}
		p.resetFile()
	}
}
