// Package outbox delivers the events of package notify to the channels of the BrokerConfig: at least once, and in the
// order of the journal for each channel.
//
// There is no queue on disk. Each channel has a cursor: the place in the journal up to which its events were
// delivered. A goroutine reads the journal from the oldest cursor with one book for all channels, and puts the events
// into queues in memory; a goroutine of each channel delivers its queue and moves the cursor. All cursors are stored
// in one ConfigMap. A replica that begins to serve, after a crash or as the new leader, continues from there: events
// whose delivery was not stored yet are delivered again, with the same IDs.
package outbox
