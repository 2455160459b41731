package capacity

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// MaxShapes bounds the node shapes of a Snapshot.
const MaxShapes = 256

// significant lists how many leading bits of each free amount the levels of the histogram keep.
// The first level is exact. The others round free amounts down, by less than a sixteenth, an
// eighth, a quarter or a half.
var significant = [...]int{63, 5, 4, 3, 2, 1}

// histogram counts nodes by shape at every level of detail at once. A change of one node
// therefore costs the same in a cluster of any size, and the result depends only on the nodes
// and not on their history.
type histogram struct {
	ids   map[corev1.ResourceName]uint64
	names []corev1.ResourceName
	// kinds are all sets of labels and taints seen so far, indexed by their number.
	kinds   []nodeKind
	kindIDs map[string]uint64
	counts  [len(significant)]map[string]int32

	// shown caches the last result of shapes; nil after a change.
	shown []quantity.NodeShape
	// buf is scratch space for keys.
	buf []byte
}

// shape is a node's position in the histogram: its key at every level. The zero value is a node
// that is not in the histogram.
type shape struct {
	keys [len(significant)]string
	in   bool
}

func newHistogram() histogram {
	h := histogram{ids: map[corev1.ResourceName]uint64{}, kindIDs: map[string]uint64{}}
	for level := range h.counts {
		h.counts[level] = map[string]int32{}
	}
	return h
}

// moveNode updates a node's position to its current free amounts.
func (h *histogram) moveNode(n *node) {
	if !n.facts.counts {
		h.removeShape(&n.shape)
		return
	}
	names := n.facts.allocatable.Names()
	if n.shape.in && string(h.shapeKey(n, names, 0)) == n.shape.keys[0] {
		return
	}
	h.removeShape(&n.shape)
	for level := range h.counts {
		key := string(h.shapeKey(n, names, level))
		n.shape.keys[level] = key
		h.counts[level][key]++
	}
	n.shape.in = true
	h.shown = nil
}

func (h *histogram) removeShape(s *shape) {
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

// shapeKey encodes the labels and the free amounts of a node, rounded down to a level. It omits
// resources with nothing free, so the key also encodes the shape.
func (h *histogram) shapeKey(n *node, names []corev1.ResourceName, level int) []byte {
	h.buf = binary.AppendUvarint(h.buf[:0], h.kindID(nodeKind{n.facts.labels, n.facts.taints}))
	for _, name := range names {
		free := roundDown(n.freeOf(name), significant[level])
		if free == 0 {
			continue
		}
		h.buf = binary.AppendUvarint(h.buf, h.resourceID(name))
		h.buf = binary.AppendUvarint(h.buf, uint64(free))
	}
	return h.buf
}

func (h *histogram) resourceID(name corev1.ResourceName) uint64 {
	id, ok := h.ids[name]
	if !ok {
		id = uint64(len(h.names))
		h.ids[name] = id
		h.names = append(h.names, name)
	}
	return id
}

// nodeKind is the published part of a node that does not depend on its pods.
type nodeKind struct {
	labels map[string]string
	taints []brokerv1alpha1.Taint
}

func (h *histogram) kindID(kind nodeKind) uint64 {
	text := kind.sortKey()
	id, ok := h.kindIDs[text]
	if !ok {
		id = uint64(len(h.kinds))
		h.kindIDs[text] = id
		h.kinds = append(h.kinds, kind)
	}
	return id
}

// sortKey orders kinds.
func (k nodeKind) sortKey() string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(k.labels)) {
		text.WriteString(key + "=" + k.labels[key] + "\n")
	}
	for _, t := range k.taints {
		text.WriteString(":" + t.Key + "=" + string(t.Value) + ":" + t.Effect + "\n")
	}
	return text.String()
}

func (h *histogram) decodeKey(key string) (quantity.Amounts, nodeKind) {
	free := quantity.Amounts{corev1.ResourceCPU: 0, corev1.ResourceMemory: 0}
	if _, limited := h.ids[corev1.ResourcePods]; limited {
		free[corev1.ResourcePods] = 0 // without it, a node that is full would look unlimited
	}
	kind, used := binary.Uvarint([]byte(key))
	for buf := []byte(key)[used:]; len(buf) > 0; {
		id, n := binary.Uvarint(buf)
		amount, m := binary.Uvarint(buf[n:])
		free[h.names[id]] = int64(amount)
		buf = buf[n+m:]
	}
	return free, h.kinds[kind]
}

// finestShapes returns the histogram at the finest level that has at most MaxShapes shapes. If even
// the coarsest level has more, its smallest shapes are merged into one, with the minimum of
// each resource.
func (h *histogram) finestShapes() []quantity.NodeShape {
	if h.shown != nil {
		return h.shown
	}
	level := 0
	for level < len(h.counts)-1 && len(h.counts[level]) > MaxShapes {
		level++
	}
	h.shown = mergeTail(h.shapesAt(level), MaxShapes)
	return h.shown
}

// shapesAt returns all shapes of a level, largest first.
func (h *histogram) shapesAt(level int) []quantity.NodeShape {
	out := make([]quantity.NodeShape, 0, len(h.counts[level]))
	for key, count := range h.counts[level] {
		free, kind := h.decodeKey(key)
		out = append(out, quantity.NodeShape{Count: int64(count), Free: free, Labels: kind.labels, Taints: kind.taints})
	}
	slices.SortFunc(out, func(a, b quantity.NodeShape) int {
		if c := compareFree(b.Free, a.Free); c != 0 {
			return c
		}
		return cmp.Compare(nodeKind{a.Labels, a.Taints}.sortKey(), nodeKind{b.Labels, b.Taints}.sortKey())
	})
	return out
}

// mergeTail merges the last shapes into one, so that at most limit remain. The merged shape has
// no labels, because its nodes need not share any, and the taints of all its nodes.
func mergeTail(shapes []quantity.NodeShape, limit int) []quantity.NodeShape {
	if len(shapes) <= limit {
		return shapes
	}
	tail := shapes[limit-1]
	tail.Free, tail.Labels = tail.Free.Clone(), nil
	for _, s := range shapes[limit:] {
		tail.Count += s.Count
		tail.Taints = append(slices.Clip(tail.Taints), s.Taints...)
		for name, free := range tail.Free {
			tail.Free[name] = min(free, s.Free[name])
		}
	}
	slices.SortFunc(tail.Taints, compareTaints)
	tail.Taints = slices.Compact(tail.Taints)
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
