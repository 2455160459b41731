package capacity

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// MaxShapes bounds the node shapes of a Snapshot.
const MaxShapes = 256

// significant lists how many leading bits of each free amount the levels of the
// histogram keep. The first is exact. On the others a node is shown with no more
// than it has, and with less by under a sixteenth, an eighth, a quarter or a half.
var significant = [...]int{63, 5, 4, 3, 2, 1}

// histogram counts nodes by shape at every level of detail at once, so that a
// change of one node costs the same however many there are, and what is shown is
// a function of the nodes and not of their history.
type histogram struct {
	ids   map[corev1.ResourceName]uint64
	names []corev1.ResourceName
	// labels are all sets of labels that were seen, each at its number.
	labels   []map[string]string
	labelIDs map[string]uint64
	counts   [len(significant)]map[string]int32

	// shown is what shapes returned last; nil after a change.
	shown []Shape
	// buf is scratch space for keys.
	buf []byte
}

// shape is where a node stands in the histogram: its key at every level. The
// zero value is a node that stands nowhere.
type shape struct {
	keys [len(significant)]string
	in   bool
}

func newHistogram() histogram {
	h := histogram{ids: map[corev1.ResourceName]uint64{}, labelIDs: map[string]uint64{}}
	for level := range h.counts {
		h.counts[level] = map[string]int32{}
	}
	return h
}

// move puts a node where its free amounts belong.
func (h *histogram) move(n *node) {
	if !n.facts.counts {
		h.remove(&n.shape)
		return
	}
	names := n.facts.allocatable.Names()
	if n.shape.in && string(h.key(n, names, 0)) == n.shape.keys[0] {
		return
	}
	h.remove(&n.shape)
	for level := range h.counts {
		key := string(h.key(n, names, level))
		n.shape.keys[level] = key
		h.counts[level][key]++
	}
	n.shape.in = true
	h.shown = nil
}

func (h *histogram) remove(s *shape) {
	if !s.in {
		return
	}
	for level, key := range s.keys {
		if h.counts[level][key]--; h.counts[level][key] == 0 {
			delete(h.counts[level], key)
		}
	}
	*s = shape{}
	h.shown = nil
}

// key writes the labels and the free amounts of a node, rounded down to a level. What
// is not free is left out, so that the key is also the shape.
func (h *histogram) key(n *node, names []corev1.ResourceName, level int) []byte {
	h.buf = binary.AppendUvarint(h.buf[:0], h.labelID(n.facts.labels))
	for _, name := range names {
		free := roundDown(n.free(name), significant[level])
		if free == 0 {
			continue
		}
		h.buf = binary.AppendUvarint(h.buf, h.id(name))
		h.buf = binary.AppendUvarint(h.buf, uint64(free))
	}
	return h.buf
}

func (h *histogram) id(name corev1.ResourceName) uint64 {
	id, ok := h.ids[name]
	if !ok {
		id = uint64(len(h.names))
		h.ids[name] = id
		h.names = append(h.names, name)
	}
	return id
}

func (h *histogram) labelID(labels map[string]string) uint64 {
	text := labelText(labels)
	id, ok := h.labelIDs[text]
	if !ok {
		id = uint64(len(h.labels))
		h.labelIDs[text] = id
		h.labels = append(h.labels, labels)
	}
	return id
}

// labelText orders sets of labels.
func labelText(labels map[string]string) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		text.WriteString(key + "=" + labels[key] + "\n")
	}
	return text.String()
}

func (h *histogram) decode(key string) (quantity.Amounts, map[string]string) {
	free := quantity.Amounts{corev1.ResourceCPU: 0, corev1.ResourceMemory: 0}
	labels, used := binary.Uvarint([]byte(key))
	for buf := []byte(key)[used:]; len(buf) > 0; {
		id, n := binary.Uvarint(buf)
		amount, m := binary.Uvarint(buf[n:])
		free[h.names[id]] = int64(amount)
		buf = buf[n+m:]
	}
	return free, h.labels[labels]
}

// shapes returns the histogram at the finest level that has at most MaxShapes
// shapes. Where even the coarsest has more, its smallest are shown as one that
// has of everything what the poorest of them has.
func (h *histogram) shapes() []Shape {
	if h.shown != nil {
		return h.shown
	}
	level := 0
	for level < len(h.counts)-1 && len(h.counts[level]) > MaxShapes {
		level++
	}
	out := make([]Shape, 0, len(h.counts[level]))
	for key, count := range h.counts[level] {
		free, labels := h.decode(key)
		out = append(out, Shape{Count: count, Free: free, Labels: labels})
	}
	slices.SortFunc(out, func(a, b Shape) int {
		return cmp.Or(compareFree(b.Free, a.Free), cmp.Compare(labelText(a.Labels), labelText(b.Labels)))
	})
	h.shown = mergeTail(out, MaxShapes)
	return h.shown
}

// mergeTail makes one shape of the last ones, so that at most limit remain. It has no
// labels: nobody who asks for some may count on it.
func mergeTail(shapes []Shape, limit int) []Shape {
	if len(shapes) <= limit {
		return shapes
	}
	tail := shapes[limit-1]
	tail.Free, tail.Labels = tail.Free.Clone(), nil
	for _, s := range shapes[limit:] {
		tail.Count += s.Count
		for name, free := range tail.Free {
			tail.Free[name] = min(free, s.Free[name])
		}
	}
	return append(slices.Clip(shapes[:limit-1]), tail)
}

// compareFree orders shapes by cpu, then memory, then the rest by name.
func compareFree(a, b quantity.Amounts) int {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if c := cmp.Compare(a[name], b[name]); c != 0 {
			return c
		}
	}
	for _, name := range a.Max(b).Names() {
		if c := cmp.Compare(a[name], b[name]); c != 0 {
			return c
		}
	}
	return 0
}

// roundDown keeps the leading bits of v.
func roundDown(v int64, keep int) int64 {
	if drop := bits.Len64(uint64(v)) - keep; drop > 0 {
		return v >> drop << drop
	}
	return v
}
