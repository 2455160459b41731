package decision

import "slices"

type currency struct {
	code  string
	count int
}

const noCurrency uint16 = 0

func (m *Market) setPrices(i int32, c Candidate) {
	if len(c.Prices) == 0 || c.Currency == "" {
		return
	}
	for name, p := range c.Prices {
		col := m.intern(name)
		col.price[i] = float64(max(p, 0))
		if p > 0 {
			col.priced++
		}
	}
	k := slices.IndexFunc(m.currencies, func(known currency) bool { return known.code == c.Currency })
	if k < 0 {
		k = len(m.currencies)
		m.currencies = append(m.currencies, currency{code: c.Currency})
	}
	m.currencies[k].count++
	m.currency[i] = uint16(k)
}

// isCurrency keeps codes to three capital letters, of which there are fewer than a
// row's currency can number.
func isCurrency(code string) bool {
	for _, letter := range []byte(code) {
		if letter < 'A' || letter > 'Z' {
			return false
		}
	}
	return len(code) == 3
}

func (m *Market) clearPrices(i int32) {
	for k := range m.columns {
		if col := &m.columns[k]; col.price[i] > 0 {
			col.price[i] = 0
			col.priced--
		}
	}
	if k := m.currency[i]; k != noCurrency {
		m.currencies[k].count--
		m.currency[i] = noCurrency
	}
}

// comparedCurrency is the wanted one, or else the one that most candidates use; of
// equally common ones the first by code.
func (m *Market) comparedCurrency(wanted string) uint16 {
	most := noCurrency
	for k := range m.currencies {
		c := &m.currencies[k]
		switch {
		case c.count == 0:
		case wanted != "":
			if c.code == wanted {
				return uint16(k)
			}
		case c.count > m.currencies[most].count,
			c.count == m.currencies[most].count && c.code < m.currencies[most].code:
			most = uint16(k)
		}
	}
	return most
}
