package packing

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// nodesOf returns nodes with one column each.
func nodesOf(free ...int64) *Nodes {
	n := &Nodes{}
	n.Reset(1)
	for _, f := range free {
		n.Add(1, []int64{f}, 0)
	}
	return n
}

func podOf(amounts ...int64) Pod {
	var p Pod
	for k, a := range amounts {
		p.Needs = append(p.Needs, Need{Column: int32(k), Amount: a})
	}
	return p
}

func TestPlaceFillsTheFirstNodes(t *testing.T) {
	tests := map[string]struct {
		free  []int64
		count int64
		size  int64
		want  int64
		left  []int64
	}{
		"all pods":                        {[]int64{4, 4}, 2, 3, 2, []int64{1, 1}},
		"several on a node":               {[]int64{5, 4}, 3, 2, 3, []int64{1, 2}},
		"only as many as fit":             {[]int64{4, 4}, 3, 3, 2, []int64{1, 1}},
		"none where none fits":            {[]int64{2, 2}, 1, 3, 0, []int64{2, 2}},
		"not all that a node could carry": {[]int64{9}, 2, 3, 2, []int64{3}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := nodesOf(test.free...)
			if got := n.Place(podOf(test.size), test.count); got != test.want || !slices.Equal(n.roomLeft(), test.left) {
				t.Errorf("placed %d and left %v, want %d and %v", got, n.roomLeft(), test.want, test.left)
			}
		})
	}
}

// roomLeft lists the free amount of each node in ascending order. The nodes have a single resource
// column.
func (n *Nodes) roomLeft() (all []int64) {
	for at := range n.bins {
		for range n.bins[at].count {
			all = append(all, n.freeAt(at, 0))
		}
	}
	slices.Sort(all)
	return all
}

func TestPodsRunOnlyOnClassesTheyMay(t *testing.T) {
	n := &Nodes{}
	n.Reset(1)
	n.Add(1, []int64{4}, 0)
	n.Add(1, []int64{4}, 1)
	if got := n.Place(Pod{Needs: []Need{{Amount: 2}}, On: []bool{false, true}}, 4); got != 2 {
		t.Errorf("placed %d, want 2", got)
	}
}

func TestTakeRoomiestBeginsWithMostRoom(t *testing.T) {
	n := nodesOf(2, 5, 4)
	n.TakeRoomiest(0, 6, nil)
	if want := []int64{0, 2, 3}; !slices.Equal(n.roomLeft(), want) {
		t.Errorf("left %v, want %v", n.roomLeft(), want)
	}
}

func TestHarmIsWhatOtherPodsCanTake(t *testing.T) {
	tests := map[string]struct {
		free        []int64
		pod, target int64
		count       int64
		want        int64
	}{
		"a pod on each full node":              {[]int64{4, 4, 4}, 1, 4, 2, 2},
		"a pod in a gap takes nothing":         {[]int64{5}, 1, 4, 1, 0},
		"enough pods to outgrow a gap":         {[]int64{5}, 1, 4, 2, 1},
		"the smallest gap is filled first":     {[]int64{7, 4}, 1, 4, 1, 1},
		"a large pod takes several places":     {[]int64{8}, 5, 2, 1, 3},
		"pods that fit nowhere take nothing":   {[]int64{4, 4}, 5, 4, 9, 0},
		"small pods share the places that fit": {[]int64{8}, 1, 2, 4, 2},
		"a pod pays for a part of a place":     {[]int64{6}, 2, 3, 2, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := nodesOf(test.free...).Harm(podOf(test.target), []Group{{podOf(test.pod), test.count}}, nil)
			if got != test.want {
				t.Errorf("takes %d places, want %d", got, test.want)
			}
		})
	}
}

func TestHarmOnlyReachesNodesThatThePodsMayRunOn(t *testing.T) {
	n := &Nodes{}
	n.Reset(1)
	n.Add(3, []int64{4}, 0)
	n.Add(1, []int64{4}, 1)
	pod := podOf(1)
	pod.On = []bool{false, true}
	if got := n.Harm(podOf(4), []Group{{pod, 3}}, nil); got != 1 {
		t.Errorf("takes %d places, want 1", got)
	}
	target := podOf(4)
	target.On = []bool{true, false}
	if got := n.Harm(target, []Group{{pod, 3}}, nil); got != 0 {
		t.Errorf("pods on other nodes take %d places, want 0", got)
	}
}

// On small nodes, every possible arrangement of two sizes of pods with two resources and of loose amounts is tried.
func TestHarmIsAtLeastThatOfAnyArrangement(t *testing.T) {
	amount := rapid.Int64Range(0, 4)
	rapid.Check(t, func(t *rapid.T) {
		var free [][]int64
		for range rapid.IntRange(1, 3).Draw(t, "nodes") {
			free = append(free, []int64{rapid.Int64Range(0, 9).Draw(t, "free"), rapid.Int64Range(0, 9).Draw(t, "other")})
		}
		draw := func(name string) Pod {
			var p Pod
			for k := range int32(2) {
				if a := amount.Draw(t, name); a > 0 {
					p.Needs = append(p.Needs, Need{Column: k, Amount: a})
				}
			}
			return p
		}
		target := draw("target")
		if len(target.Needs) == 0 {
			return
		}
		pods := make([]Group, 2)
		for i := range pods {
			pods[i] = Group{draw("pod"), rapid.Int64Range(0, 3).Draw(t, "count")}
		}
		n := &Nodes{}
		n.Reset(2)
		for _, f := range free {
			n.Add(1, f, 0)
		}
		loose := make([]Group, 2)
		for k := range loose {
			loose[k] = Group{Pod{Needs: []Need{{Column: int32(k), Amount: 1}}}, rapid.Int64Range(0, 2).Draw(t, "loose")}
		}
		before := n.Count(target)
		if got, worst := n.Harm(target, pods, loose), before-fewestPlaces(n, target, append(pods, loose...)); got < worst {
			t.Fatalf("takes %d places, but some arrangement takes %d", got, worst)
		}
	})
}

func fewestPlaces(n *Nodes, target Pod, pods []Group) int64 {
	fewest := n.Count(target)
	for i := range pods {
		if pods[i].Count == 0 || len(pods[i].Needs) == 0 {
			continue
		}
		for at := range n.bins {
			if n.countFit(at, pods[i].Pod) == 0 {
				continue
			}
			n.takePods(at, pods[i].Pod, 1)
			pods[i].Count--
			fewest = min(fewest, fewestPlaces(n, target, pods))
			pods[i].Count++
			n.takePods(at, pods[i].Pod, -1)
		}
	}
	return fewest
}
