package broker

import (
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// troubleAgain is when a failure that lasts is logged again.
const troubleAgain = time.Minute

// trouble logs a failure that repeats every half second: when it appears or changes, and once a
// minute.
type trouble struct {
	text   string
	logged time.Time
}

// logTrouble logs an error unless the same one was logged within the last minute. What heals by itself
// while the journal is away is an info; a damaged journal is an error, since a person must repair
// it.
func (t *trouble) logTrouble(log logr.Logger, err error, now time.Time, message string) {
	if err.Error() == t.text && now.Sub(t.logged) < troubleAgain {
		return
	}
	t.text, t.logged = err.Error(), now
	if _, corrupt := errors.AsType[*journal.CorruptError](err); corrupt {
		log.Error(err, message)
		return
	}
	log.Info("WARNING: "+message, "cause", err.Error())
}

// clearTrouble forgets the failure, so that it is logged when it returns.
func (t *trouble) clearTrouble() { *t = trouble{} }
