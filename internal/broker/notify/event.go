package notify

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
)

// Type says what happened. It is the type of the CloudEvent without prefix and version.
type Type string

// Types of events.
const (
	Queued           Type = "reservation.queued"
	Granted          Type = "reservation.granted"
	Active           Type = "reservation.active"
	NotReady         Type = "reservation.not-ready"
	Moved            Type = "reservation.moved"
	Changed          Type = "reservation.changed"
	ChangeRefused    Type = "reservation.change-refused"
	PreemptionNotice Type = "reservation.preemption-notice"
	RecallNotice     Type = "reservation.recall-notice"
	Idle             Type = "reservation.idle"
	NoticeWithdrawn  Type = "reservation.notice-withdrawn"
	Ending           Type = "reservation.ending"
	Failed           Type = "reservation.failed"
	Ended            Type = "reservation.ended"
	ClusterJoined    Type = "cluster.joined"
	ClusterSilent    Type = "cluster.silent"
	ClusterBack      Type = "cluster.back"
	ClusterLost      Type = "cluster.lost"
	ConfigChanged    Type = "config.changed"
	JournalRestored  Type = "journal.restored"
)

// Test is the type of the event that tests a channel. Channels receive it whatever their patterns
// are.
const Test Type = "notification.test"

// Record is the type of the event that contains a record of the journal as it is stored. Patterns do not
// select it: a channel has to name it.
const Record Type = "journal.record"

// Types lists all types of events that the patterns of a channel can select.
var Types = []Type{
	Queued, Granted, Active, NotReady, Moved, Changed, ChangeRefused, PreemptionNotice, RecallNotice, Idle, NoticeWithdrawn, Ending, Failed, Ended,
	ClusterJoined, ClusterSilent, ClusterBack, ClusterLost, ConfigChanged, JournalRestored,
}

// Event describes a record of the journal, or a part of it, for readers outside of the broker.
type Event struct {
	Type Type
	// Subject is the name of the reservation, the ID of the cluster, "default" for the BrokerConfig,
	// or the ID of the journal. It is "" for a Record about none of them.
	Subject string
	// Index counts the events of one record from 0, before any of them is filtered out.
	Index int
	Data  Data
	// Record is the record itself in an event of type Record, nil in all others.
	Record *trail.Record
}

// Data is the payload of an event. Empty fields are left out.
type Data struct {
	// Position, Time, Kind and Actor are copied from the record; see trail.Record.
	Position uint64    `json:"position"`
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Actor    string    `json:"actor"`
	// Message is one sentence for people.
	Message     string `json:"message"`
	Cluster     string `json:"cluster,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	Requester   string `json:"requester,omitempty"`
	Tenant      string `json:"tenant,omitempty"`
	// Phase is the phase of the reservation after the record.
	Phase string `json:"phase,omitempty"`
	// Provider and Placement describe the reservation's present placement. From is the provider that a
	// moved reservation leaves.
	Provider  string `json:"provider,omitempty"`
	Placement int32  `json:"placement,omitempty"`
	From      string `json:"from,omitempty"`
	// Reason is a word of the API, for example Expired or ProviderLost.
	Reason string `json:"reason,omitempty"`
	// Until is when the request's wait, the recall's notice or the reservation ends.
	Until time.Time `json:"until,omitzero"`
}

// fillRecord copies the fields that all events of a record share.
func (e *Event) fillRecord(r *trail.Record, index int) {
	e.Index = index
	e.Data.Position, e.Data.Time, e.Data.Kind, e.Data.Actor = r.Position, r.Time, r.Kind, r.Actor
}

// stateKey returns the type and the subject of an event, and the state of the subject without times. Events
// with equal keys are repetitions.
func (e *Event) stateKey() [5]string {
	return [5]string{string(e.Type), e.Subject, e.Data.Phase, e.Data.Provider, e.Data.Reason}
}

// ID returns the identifier of an event. It is the same whenever the event is delivered again.
func (e *Event) ID(journalID string) string {
	if e.Type == Record {
		return fmt.Sprintf("%s-%d", journalID, e.Data.Position)
	}
	return fmt.Sprintf("%s-%d-%d", journalID, e.Data.Position, e.Index)
}
