package term

import (
	"errors"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// troubleAgain is how often a lasting failure is logged.
const troubleAgain = time.Minute

// Trouble limits the log lines about a failure that repeats every half second: it is logged when it
// appears or changes, and then once every troubleAgain.
type Trouble struct {
	text   string
	logged time.Time
}

// Report logs an error unless it logged the same error within the last troubleAgain. A damaged
// journal is logged as an error, because a person must repair it. Any other failure is logged as
// info, because it may end without help.
func (t *Trouble) Report(log logr.Logger, err error, now time.Time, message string) {
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

// Clear forgets the last failure, so that it is logged at once when it appears again.
func (t *Trouble) Clear() { *t = Trouble{} }
