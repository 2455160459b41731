package term

import "time"

const (
	// Lease is how long a reservation without a duration stays after the last call of its requester. It
	// is long because the end of a reservation stops workloads.
	Lease = 24 * time.Hour
	// RenewEvery is how often a requester is asked to renew a lease. If one renewal fails, there is
	// time for two more.
	RenewEvery = Lease / 3
	// Retain is how long an ended reservation stays in the book, so that a repeated request still finds
	// it.
	Retain = 24 * time.Hour
	// QueueFullRetry is how long a requester should wait before it asks again if the queue is full.
	QueueFullRetry = 30 * time.Second
)
