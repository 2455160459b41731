package decision

type currency struct {
	code  string
	count int
}

const noCurrency uint16 = 0

func (m *Market) setPrices(i int32, c Candidate) {
	priced := len(c.Prices) > 0 || c.StoragePrice > 0 || c.EgressPrice > 0
	if !priced || c.Currency == "" {
		return
	}
	m.storage[i], m.egress[i] = float64(max(c.StoragePrice, 0)), float64(max(c.EgressPrice, 0))
	for name, p := range c.Prices {
		col := m.nameColumn(i, name)
		if p > 0 {
			col.price[i] = float64(p)
			col.priced++
		} else {
			col.price[i] = freePrice
			col.free++
		}
	}
	k := m.currencyAt(c.Currency)
	m.currencies[k].count++
	m.currency[i] = uint16(k)
}

// currencyAt returns the index of a currency in m.currencies, which it adds if necessary. A new
// currency replaces one that no candidate uses, to keep the list short: every decision scans it.
func (m *Market) currencyAt(code string) int {
	unused := -1
	for k := range m.currencies {
		switch {
		case m.currencies[k].code == code:
			return k
		case m.currencies[k].count == 0 && uint16(k) != noCurrency:
			unused = k
		}
	}
	if unused < 0 {
		unused = len(m.currencies)
		m.currencies = append(m.currencies, currency{})
	}
	m.currencies[unused] = currency{code: code}
	return unused
}

func (m *Market) clearPrices(i int32) {
	m.storage[i], m.egress[i] = 0, 0
	for k := range m.columns {
		col := &m.columns[k]
		switch p := col.price[i]; {
		case p > 0:
			col.priced--
		case p == freePrice:
			col.free--
		}
		col.price[i] = 0
	}
	if k := m.currency[i]; k != noCurrency {
		m.currencies[k].count--
		m.currency[i] = noCurrency
	}
}

// countWithPrices returns how many candidates have at least one price.
func (m *Market) countWithPrices() int {
	n := 0
	for k := range m.currencies {
		n += m.currencies[k].count
	}
	return n
}

// commonCurrency returns the currency that most candidates use, "" if no candidate has one. Among
// equally common currencies it returns the code that sorts first.
func (m *Market) commonCurrency() string {
	most := noCurrency
	for k := range m.currencies {
		c, leader := &m.currencies[k], &m.currencies[most]
		if c.count > leader.count || c.count > 0 && c.count == leader.count && c.code < leader.code {
			most = uint16(k)
		}
	}
	return m.currencies[most].code
}
