package trail

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// Record describes a record of the journal: who did what to which reservation.
type Record struct {
	// Position is the record's number in the journal. Numbers are never reused.
	Position uint64 `json:"position"`
	// Time is when the broker made the record; zero for a record of the journal itself.
	Time time.Time `json:"time,omitzero"`
	// Kind is the kind of the event. Records of the journal itself are "open" and "checkpoint".
	Kind string `json:"kind"`
	// By is the actor as recorded, for example rome:alice; "" if the record names none.
	By string `json:"by,omitempty"`
	// Actor is who caused the event, in words. If By is "", it is the cluster that usually causes
	// this kind of event, or the broker.
	Actor string `json:"actor"`
	// Cluster is the cluster that the event describes; "" for none.
	Cluster string `json:"cluster,omitempty"`
	// Requester and Provider are the clusters of the reservation; "" if there is none, or if
	// neither the record nor the Context names them.
	Requester string `json:"requester,omitempty"`
	Provider  string `json:"provider,omitempty"`
	// Reservation is the name of the reservation or held quote; "" for none.
	Reservation string `json:"reservation,omitempty"`
	// Placement is the number of the placement, 0 for none.
	Placement int32 `json:"placement,omitempty"`
	// Decision is the comparison of providers in the event; nil for none.
	Decision *Decision `json:"decision,omitempty"`
	// Prev and Hash are the hashes of the chain before and after the record, in hexadecimal.
	Prev string `json:"prev"`
	Hash string `json:"hash"`
	// Record is the stored record. Hash covers all its bytes.
	Record json.RawMessage `json:"record"`
}

// Decision describes how the candidates for a request compared.
type Decision struct {
	// Candidates are sorted by score, best first.
	Candidates []brokerv1alpha1.Candidate `json:"candidates"`
	// Rejected maps each reason to the number of candidates rejected for it.
	Rejected map[string]int32 `json:"rejected,omitempty"`
}

// Context looks up reservations of which a record contains only the name.
type Context interface {
	// Parties returns the requester of a reservation, and the provider and number of one of its
	// placements. Placement 0 means the current one. Unknown values are "" or 0.
	Parties(reservation string, placement int32) (requester, provider string, number int32)
}

type subjects struct {
	Name      string `json:"name"`
	ClusterID string `json:"clusterID"`
	Requester string `json:"requester"`
	Provider  string `json:"provider"`
	Placement int32  `json:"placement"`
	// Refused is absent, true, or the provider's reason, depending on the kind.
	Refused     json.RawMessage    `json:"refused"`
	Explanation ledger.Explanation `json:"explanation"`
	// Request is the request in an Enqueue or a Claim.
	Request *struct {
		Name      string `json:"name"`
		Requester string `json:"requester"`
	} `json:"request"`
}

// journalKind is the kind of the journal's entries that contain events.
const journalKind = "record"

// Describe returns a description of an entry of the journal. It asks context for the parties of the
// entry's reservation. context may be nil.
func Describe(e *journal.Entry, context Context) (*Record, error) {
	out := &Record{Position: e.Position, Kind: e.Kind, Actor: theBroker, Prev: e.Prev, Hash: e.Hash, Record: e.Data}
	if e.Kind != journalKind {
		return out, nil
	}
	change, err := out.readEnvelope(e.Data)
	if err != nil {
		return nil, fmt.Errorf("journal record %d: %w", e.Position, err)
	}
	var s subjects
	if err := json.Unmarshal(change, &s); err != nil {
		return nil, fmt.Errorf("journal record %d: %w", e.Position, err)
	}
	out.fillSubjects(&s)
	if context != nil && out.Reservation != "" {
		requester, provider, number := context.Parties(out.Reservation, out.Placement)
		out.addParties(requester, provider, number)
	}
	out.Actor = out.describeActor(s.Refused != nil)
	return out, nil
}

// readEnvelope reads {"at":TIME,"by":ACTOR,"KIND":CHANGE}. It sets time, actor and kind of the
// record, and returns the change.
func (r *Record) readEnvelope(data []byte) (change json.RawMessage, err error) {
	from := json.NewDecoder(bytes.NewReader(data))
	if _, err := from.Token(); err != nil {
		return nil, err
	}
	r.Kind = ""
	for from.More() {
		key, err := from.Token()
		if err != nil {
			return nil, err
		}
		switch key {
		case "at":
			err = from.Decode(&r.Time)
		case "by":
			err = from.Decode(&r.By)
		default:
			r.Kind = fmt.Sprint(key)
			err = from.Decode(&change)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.Kind == "" || r.Time.IsZero() {
		return nil, fmt.Errorf("%w: it has no time or no event", ledger.ErrMalformed)
	}
	return change, nil
}

func (r *Record) fillSubjects(s *subjects) {
	r.Reservation, r.Requester, r.Provider, r.Placement, r.Cluster = s.Name, s.Requester, s.Provider, s.Placement, s.ClusterID
	if s.Request != nil {
		r.Reservation, r.Requester = cmp.Or(s.Request.Name, s.Name), s.Request.Requester
	}
	if s.Explanation != "" {
		r.Decision = &Decision{Candidates: s.Explanation.Candidates(), Rejected: s.Explanation.Rejected()}
	}
}

// addParties sets the parties that the record itself does not name.
func (r *Record) addParties(requester, provider string, number int32) {
	r.Requester, r.Provider = cmp.Or(r.Requester, requester), cmp.Or(r.Provider, provider)
	if r.Placement == 0 && (r.Provider == provider || provider == "") {
		r.Placement = number
	}
}

const theBroker = "the broker"

// The parties that cause kinds of events whose records name no actor.
const (
	ofCluster   = "cluster"
	ofRequester = "requester"
	ofProvider  = "provider"
)

// usual maps kinds of events to the party that usually causes them. It leaves out the kinds that
// the broker causes.
var usual = map[string]string{
	"offer": ofCluster, "usage": ofCluster, "announced": ofCluster, "liftPauses": ofCluster,
	"reserve": ofRequester, "enqueue": ofRequester, "edit": ofRequester, "renew": ofRequester, "end": ofRequester,
	"keep": ofRequester, "take": ofRequester, "letGo": ofRequester, "claim": ofRequester, "shut": ofRequester,
	"connect": ofRequester, "nodeReady": ofRequester, "consumerGone": ofRequester,
	"provision": ofProvider, "acknowledge": ofProvider, "settle": ofProvider, "exceed": ofProvider, "providerGone": ofProvider, "recall": ofProvider, "adopt": ofProvider,
	"restate": ofProvider,
}

func (r *Record) describeActor(refused bool) string {
	if r.By != "" {
		return ledger.Actor(r.By).String()
	}
	by := usual[r.Kind]
	if refused {
		by = ofProvider
	}
	name := map[string]string{ofCluster: r.Cluster, ofRequester: r.Requester, ofProvider: r.Provider}[by]
	return cmp.Or(name, theBroker)
}
