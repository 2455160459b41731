package journal

// Committed returns the last position known to be stored.
func (j *Journal) Committed() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.committed.Position
}
