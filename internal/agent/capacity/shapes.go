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

// MaxShapes is how many node shapes a Snapshot has at most.
const MaxShapes = 256

// significant is how many leading bits of each free amount a level of the histogram keeps; the bits
// below are cleared. The first level is exact, the second one rounds down by less than 6 %, the
// last one by less than half.
var significant = [...]int{63, 5, 4, 3, 2, 1}

// histogram counts nodes by shape: by their labels, taints and free amounts. It counts once for each level of
// significant, with the amounts rounded down to that level. The cost of updating one node does not depend on the number
// of nodes. The shapes that it returns depend only on the present nodes, not on earlier ones.
type histogram struct {
	ids   map[corev1.ResourceName]uint64
	names []corev1.ResourceName
	// kinds holds all combinations of labels and taints seen so far. kindIDs maps the sortKey of each
	// one to its index.
	kinds   []nodeKind
	kindIDs map[string]uint64
	counts  [len(significant)]map[string]int32

	// shown caches the result of finestShapes; nil after a change.
	shown []quantity.NodeShape
	// buf is a buffer that shapeKey reuses.
	buf []byte
}

// shape holds a node's keys in the histogram, one for each level. in is false for a node that is
// not in the histogram.
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

// shapeKey returns the key of a node at a level. The key encodes the node's labels, taints and free
// amounts, rounded down for that level; decodeKey reads them back. Resources with nothing free are
// omitted.
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

// nodeKind is the part of a shape that does not depend on the node's pods.
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

// sortKey returns a text that is unique for the kind and defines the order of kinds.
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
		free[corev1.ResourcePods] = 0 // without this entry, a node without free pod slots would look unlimited
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

// finestShapes returns the shapes of the most precise level that has at most MaxShapes of them. If
// even the last level has more, the smallest shapes are merged into one, with the minimum free
// amount of each resource.
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

// shapesAt returns all shapes of a level, those with the most free capacity first.
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

// mergeTail merges the last shapes into one, so that at most limit shapes remain. The merged shape
// has the taints of all its nodes, but no labels, because their labels may differ.
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

// compareFree compares free amounts: first cpu, then memory, then the other resources by name.
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

// roundDown keeps the given number of leading bits of v, from the highest set bit.
func roundDown(v int64, keep int) int64 {
	if drop := bits.Len64(uint64(v)) - keep; drop > 0 {
		return v >> drop << drop
	}
	return v
}
