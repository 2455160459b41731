// Package accounts adds up how much capacity was reserved and used, and what was paid for it. It
// keeps one sum for each tenant, requester, provider, resource and currency, and for each hour, day
// and month.
//
// An entry is a placement whose capacity and cost are added up. At each event, the caller says
// which entries begin and which end. For the time between two events, the package multiplies the
// amounts by the time that has passed. It reads no clock, so that a replay of the same events gives
// the same rows.
//
// Time is counted in whole seconds: the times of events are rounded down. Therefore no rounding
// error accumulates, and the money in all rows is exactly the sum over all entries of price × time.
//
// Only the present hour, day and month are in memory. When one of them ends, Ended returns its rows
// until the caller has stored them and calls Drop.
package accounts
