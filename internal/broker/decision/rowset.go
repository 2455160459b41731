package decision

// rowSet is a set of rows of the market, one bit for each row.
type rowSet []uint64

// resizeTo returns a set for n rows. The set contains all rows if the parameter in is true, and no
// row otherwise. It reuses the memory of s if that suffices.
func (s rowSet) resizeTo(n int, in bool) rowSet {
	words := (n + 63) / 64
	if cap(s) < words {
		s = make(rowSet, words)
	}
	s = s[:words]
	fill := uint64(0)
	if in {
		fill = ^uint64(0)
	}
	for k := range s {
		s[k] = fill
	}
	return s
}

func (s rowSet) hasRow(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

func (s rowSet) addRow(rows []int32) {
	for _, i := range rows {
		s[i>>6] |= 1 << (i & 63)
	}
}

func (s rowSet) dropRow(rows []int32) {
	for _, i := range rows {
		s[i>>6] &^= 1 << (i & 63)
	}
}

func (s rowSet) intersectWith(other rowSet) {
	for k := range s {
		s[k] &= other[k]
	}
}
