package requests

// PriorityLimits are the highest priorities that clusters may use. The zero value limits no
// cluster.
type PriorityLimits struct {
	// Of has the limits of some clusters, by ID.
	Of map[string]int32
	// Default is the limit of all other clusters, nil for none.
	Default *int32
}

// Effective returns the priority that counts for a request: the requested one, but at most the
// requester's limit.
func (c PriorityLimits) Effective(requester string, asked int32) int32 {
	if limit, named := c.Of[requester]; named {
		return min(asked, limit)
	}
	if c.Default != nil {
		return min(asked, *c.Default)
	}
	return asked
}
