package quantity

// HasMoreThan reports whether any of the amounts is larger than the one in before.
func (a Amounts) HasMoreThan(before Amounts) bool {
	for name, amount := range a {
		if amount > before[name] {
			return true
		}
	}
	return false
}
