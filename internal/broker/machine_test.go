package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var (
	machineSteps = flag.Int("broker.steps", 20_000, "steps of TestSimulation, over one seed for every 400")
	machineSeed  = flag.Int64("broker.seed", -1, "the only seed of TestSimulation, as a failure names it")
)

// choose returns a number from 0 to n-1.
type choose func(n int) int

// machine is a broker with decision, ledger and journal. Clusters use it at random, time
// advances only on request, and an oracle knows the allowed outcomes.
type machine struct {
	*Broker
	*oracle
	server *journaltest.Server
	store  *journaltest.Client
	// next is the broker that follows the journal and is started next; nil if there is none.
	next   *Broker
	starts int
	clock  atomic.Int64
	random *rand.ChaCha8
	stop   func()
	// abandon stops the broker without waiting for it.
	abandon func()
	// began is when the current broker started.
	began time.Time
	steps int
	// sequence is the sequence number of the newest advertisement of any cluster.
	sequence int64
	names    []string
	// tables are the tables of candidates in the answers that requesters got.
	tables []table
	did    map[string]int
}

var machineBegins = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// newMachine returns a machine that derives the names of reservations from the seed.
func newMachine(seed int64) *machine {
	var bytes [32]byte
	binary.LittleEndian.PutUint64(bytes[:], uint64(seed))
	m := &machine{oracle: newOracle(), server: journaltest.NewServer(), random: rand.NewChaCha8(bytes), did: map[string]int{}}
	m.clock.Store(machineBegins.UnixNano())
	m.start()
	return m
}

func (m *machine) now() time.Time { return time.Unix(0, m.clock.Load()).UTC() }

// start runs a new broker, or the one that has followed the journal, on the same API server. Every
// second time it also lets another broker begin to follow.
func (m *machine) start() {
	m.Broker, m.next = cmp.Or(m.next, m.newBroker()), nil
	m.store = m.opts.Store.(*journaltest.Client)
	m.SetConfig(context.Background(), m.rules.config())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	ended := m.ended
	go func() {
		defer close(done)
		_ = m.Run(ctx)
	}()
	m.abandon = cancel
	m.stop = func() {
		cancel()
		<-done
	}
	<-ended
	m.began = m.now()
	if m.starts++; m.starts%2 == 0 {
		m.next = m.newBroker()
		if err := m.next.standby.KeepUp(context.Background()); err != nil {
			panic(err)
		}
	}
}

func (m *machine) newBroker() *Broker {
	b := New(Options{Store: m.server.Client(), Journal: journal.Options{SegmentBytes: 2048}, Version: "test", Log: logr.Discard(), Now: m.now, Random: m.random})
	b.batch = 3
	return b
}

// step performs one action, carries out due steps, and compares the broker with the oracle.
func (m *machine) step(kind string, do func(*machine, choose) (cause, error), c choose) error {
	m.steps++
	m.forgot = ""
	why, err := do(m, c)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	m.did[kind]++
	if err := m.catchUp(why); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

// catchUp carries out due steps, and compares the broker with the oracle.
func (m *machine) catchUp(why cause) error {
	m.mu.Lock()
	t := m.session
	m.mu.Unlock()
	// A due step may make further steps due.
	for next, more := t.CarryOutDue(); more && !next.After(m.now()); next, more = t.CarryOutDue() {
	}
	return m.compare(why)
}

// compare checks against the oracle what has changed since the last step and, every 64th time, all
// clusters and reservations.
func (m *machine) compare(why cause) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if err := m.comparePledges(now); err != nil {
		return err
	}
	clear(m.left)
	clear(m.delivered)
	m.earlier = m.stays
	m.before, m.suspended = m.suspended, m.suspensionsNow(now)
	changed := drain(m.feed.Reservations)
	slices.SortStableFunc(changed, func(a, b string) int { return cmp.Compare(m.changedAt(a), m.changedAt(b)) })
	for _, name := range changed {
		m.pending[name] = true
	}
	for _, name := range changed {
		// The standing placements of all reservations are noted first, because a victim may have
		// changed again after the reservation that took its place.
		if err := m.followStanding(name, m.session.book.Reservation(name), now, why); err != nil {
			return err
		}
	}
	for _, name := range changed {
		delete(m.pending, name)
		if err := m.follow(name, m.session.book.Reservation(name), now, why); err != nil {
			return err
		}
		if err := m.agreementsMatch(m.session.book.Reservation(name)); err != nil {
			return err
		}
	}
	touched := drain(m.feed.Clusters)
	if m.steps%64 == 0 {
		touched = slices.Collect(maps.Keys(m.lenders))
	}
	for _, id := range touched {
		if err := m.differs(id, m.session.book.Cluster(id)); err != nil {
			return err
		}
	}
	if m.steps%64 == 0 {
		if err := m.sameReservations(); err != nil {
			return err
		}
	}
	return errors.Join(m.overdue(now), m.closedRightly(now), m.nodesInTime(now, m.began), m.createdInTime(now, m.began), m.recallsSettled(now, m.began), m.settled(now, m.began.Add(recovery.ListenGrace)))
}

// changedAt returns the position of a reservation's last change; 0 if the reservation is forgotten.
func (m *machine) changedAt(name string) uint64 {
	if r := m.session.book.Reservation(name); r != nil {
		return r.Changed
	}
	return 0
}

// drain returns the names that a feed has, sorted.
func drain(read func(context.Context) ([]string, error)) []string {
	ended, end := context.WithCancel(context.Background())
	end() // so that it does not wait for more
	names, _ := read(ended)
	slices.Sort(names)
	return names
}

func (m *machine) sameReservations() error {
	count := 0
	m.session.book.Reservations(func(*ledger.Reservation) { count++ })
	if count != len(m.told) {
		return fmt.Errorf("the broker knows %d reservations, clusters know %d", count, len(m.told))
	}
	for key, name := range m.keys {
		if r, _ := m.session.book.ByKey(key.requester, key.key); r == nil || r.Name != name {
			return fmt.Errorf("key %v finds %+v, it belongs to %s", key, r, name)
		}
	}
	return nil
}

// durable waits until all events are stored, also those that the passing of time caused.
func (m *machine) durable() error {
	m.mu.Lock()
	last := m.session.last
	m.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.Wait(context.Background())
}

// replays reads the journal and compares the result with the book in memory. The broker's lock is
// held meanwhile, so a newly started broker carries out no due steps.
func (m *machine) replays() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.session.last; last != nil {
		if err := last.Wait(context.Background()); err != nil {
			return err
		}
	}
	_, recovery, err := journal.Follow(context.Background(), m.server.Client(), JournalName, journal.Options{})
	if err != nil {
		return err
	}
	again, err := replay.Read(recovery)
	if err != nil {
		return err
	}
	if err := m.costsAgree(recovery, again); err != nil {
		return err
	}
	if err := m.historyAgrees(recovery, again); err != nil {
		return err
	}
	want, err := m.session.book.Freeze().Bytes()
	if err != nil {
		return err
	}
	got, err := again.State.Freeze().Bytes()
	if err == nil && !bytes.Equal(want, got) {
		err = fmt.Errorf("the journal holds another book than memory:\n%s\n%s", got, want)
	}
	return err
}

// kinds lists the possible actions with their weights.
var kinds = []struct {
	name   string
	weight int
	do     func(*machine, choose) (cause, error)
}{
	{"advertise", 14, (*machine).advertise},
	{"offer by hand", 2, (*machine).offerByHand},
	{"reserve", 18, (*machine).reserveNew},
	{"reserve again", 8, (*machine).reserveAgain},
	{"release", 6, (*machine).releaseOne},
	{"shut", 2, (*machine).shutKey},
	{"acknowledge", 10, reporting(v1.StatusReportRoleProvider, v1.StatusReportStateAcknowledged)},
	{"provision", 6, (*machine).provision},
	{"refuse", 3, reporting(v1.StatusReportRoleProvider, v1.StatusReportStateRefused)},
	{"provider gone", 12, reporting(v1.StatusReportRoleProvider, v1.StatusReportStateGone)},
	{"ready", 8, reporting(v1.StatusReportRoleConsumer, v1.StatusReportStateReady)},
	{"connect", 6, (*machine).connect},
	{"look", 8, (*machine).look},
	{"cannot reach", 3, (*machine).cannotReach},
	{"change", 6, (*machine).change},
	{"answer change", 6, (*machine).answerChange},
	{"serve", 8, (*machine).serve},
	{"not ready", 2, (*machine).nodeFails},
	{"vacant", 6, reporting(v1.StatusReportRoleConsumer, v1.StatusReportStateVacant)},
	{"consumer gone", 10, reporting(v1.StatusReportRoleConsumer, v1.StatusReportStateGone)},
	{"seconds pass", 10, (*machine).secondsPass},
	{"a deadline comes", 4, (*machine).deadlineComes},
	{"a cluster falls silent", 5, (*machine).fallSilent},
	{"a day passes", 1, (*machine).dayPasses},
	{"hold", 5, (*machine).holdQuote},
	{"hold again", 2, (*machine).holdAgain},
	{"take over", 5, (*machine).takeOver},
	{"let go", 2, (*machine).letGoOne},
	{"exceed", 3, (*machine).exceed},
	{"lie", 3, (*machine).lie},
	{"lift pauses", 1, (*machine).liftPauses},
	{"forget cluster", 2, (*machine).forgetCluster},
	{"store what has ended", 2, (*machine).storeEnded},
	{"attack", 6, (*machine).attack},
	{"configure", 1, (*machine).configure},
	{"drain", 2, (*machine).drain},
	{"pause", 1, (*machine).pause},
	{"restart", 1, (*machine).restart},
}

func oneOf[T any](c choose, from ...T) T { return from[c(len(from))] }

// anyRequest asks for whole CPUs and GiB, so that exact fits are common.
func (m *machine) anyRequest(c choose) *v1.ReservationRequest {
	r := &v1.ReservationRequest{Resources: v1.Amounts{"cpu": strconv.Itoa(1 + c(4)), "memory": strconv.Itoa(1+c(3)) + "Gi"}}
	if c(2) == 0 {
		r.DurationSeconds = int64(60 + c(300))
	}
	r.Priority, r.Actor = int32(c(4)), anyUser(c)
	if c(2) == 0 {
		r.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
	}
	if c(3) == 0 {
		r.QueueTimeoutSeconds = int64(10 + c(300))
	}
	if c(6) == 0 {
		r.TargetClusterID = oneOf(c, "paris", "berlin", "oslo", "nowhere")
	}
	if c(8) == 0 {
		r.Healing = v1.ReservationRequestHealingWait
	}
	if c(4) == 0 {
		r.Constraints = &v1.Constraints{MaxPrice: &v1.Money{Amount: brokerv1alpha1.Price(strconv.Itoa(1 + c(10))), Currency: "EUR"}}
	}
	anyPlace(c, r)
	r.Idle = m.anyIdle(c)
	return r
}

// written is the inverse of amountsOf.
func written(amounts quantity.Amounts) v1.Amounts {
	out := v1.Amounts{"cpu": strconv.FormatInt(amounts[corev1.ResourceCPU]/1000, 10)}
	if memory := amounts[corev1.ResourceMemory]; memory > 0 {
		out["memory"] = strconv.FormatInt(memory>>30, 10) + "Gi"
	}
	return out
}

func amountsOf(r v1.Amounts) quantity.Amounts {
	out := quantity.Amounts{}
	if text, ok := r["cpu"]; ok {
		n, _ := strconv.ParseInt(text, 10, 64) // anyRequest has written this text, so it is a number
		out[corev1.ResourceCPU] = n * 1000
	}
	if text, ok := r["memory"]; ok {
		n, _ := strconv.ParseInt(text[:len(text)-2], 10, 64)
		out[corev1.ResourceMemory] = n << 30
	}
	return out
}

// advertise sends an agent's advertisement, sometimes out of order, and with an arbitrary
// timestamp.
func (m *machine) advertise(c choose) (cause, error) {
	id := oneOf(c, "paris", "paris", "paris", "berlin", "berlin", "rome")
	m.sequence++
	cores, created := 4+c(9), anyNewNodes(c)
	if known := m.lenders[id]; known != nil && known.created.count > 0 && c(3) == 0 {
		cores, created = int(known.amounts[corev1.ResourceCPU]/1000)+4, known.created.oneCreated(c)
	}
	adv := &v1.Advertisement{
		ClusterID: id, EndpointURL: endpointOf(id), Epoch: m.anyEpoch(c, id), Sequence: m.sequence, Timestamp: m.now().Add(time.Duration(c(101)-50) * time.Hour),
		Allocatable: v1.Amounts{"cpu": strconv.Itoa(cores), "memory": "64Gi"}, Allocated: v1.Amounts{"cpu": strconv.Itoa(c(3))},
	}
	if c(5) == 0 {
		adv.Sequence -= int64(1 + c(40))
	}
	adv.Capacity = adv.Allocatable
	said := &lender{
		amounts: quantity.Amounts{corev1.ResourceCPU: amountsOf(v1.Amounts{"cpu": adv.Allocatable["cpu"]})[corev1.ResourceCPU], corev1.ResourceMemory: 64 << 30},
		own:     amountsOf(adv.Allocated), price: int64(c(4)), used: map[string]quantity.Amounts{}, recalls: map[string]time.Time{}, unheard: map[string]bool{}, agent: true, heard: m.now(),
		created: created,
	}
	adv.Cost = costOf(said)
	for _, name := range m.names {
		r := m.told[name]
		if r == nil || r.recall == nil && c(2) == 0 {
			continue
		}
		for i, p := range r.placements {
			if p.provider == id && !p.gone {
				cpus := c(5)
				if r.request.Idle != nil && c(4) > 0 {
					cpus = 0
				}
				placement := brokerv1alpha1.PlacementName(name, int32(i+1))
				adv.Usage = append(adv.Usage, v1.Usage{Reservation: name, Placement: int32(i + 1), Used: v1.Amounts{"cpu": strconv.Itoa(cpus)}})
				said.used[placement] = quantity.Amounts{corev1.ResourceCPU: int64(cpus) * 1000}
				m.anyRecall(c, id, said, &adv.Usage[len(adv.Usage)-1])
			}
		}
	}
	m.anyVacant(c, adv)
	said.nodes = anyNodes(c)
	said.nodes.describe(adv)
	said.created.describe(adv, said.nodes)
	if err := m.publish(adv, said); err != nil {
		return cause{}, err
	}
	// The broker records a small change of an offer only when a decision depends on it. The oracle
	// needs the recorded offer, so the test makes the broker record every change at once.
	return cause{}, m.settleOffers()
}

// pricesMemory reports whether a lender gives memory for nothing, and not merely without a price.
func (l *lender) pricesMemory() bool { return l.price%4 != 0 }

func costOf(l *lender) v1.Cost {
	if l.price == 0 {
		return v1.Cost{}
	}
	out := v1.Cost{CPUCost: strconv.FormatInt(l.price, 10), MemoryCost: "0", Currency: "EUR"}
	if !l.pricesMemory() {
		out.MemoryCost = ""
	}
	return out
}

// anyEpoch returns the epoch of a cluster's next advertisement: mostly the one that the broker
// knows, 0 for an agent that has just started, and older ones of agents that have not noticed
// that another one leads.
func (m *machine) anyEpoch(c choose, id string) int64 {
	known := m.epochOf(id)
	switch c(10) {
	case 0:
		return 0
	case 1:
		return max(1, known-1)
	}
	return known
}

// publish sends an advertisement and compares the broker's answer about its order with the
// oracle's.
func (m *machine) publish(adv *v1.Advertisement, said *lender) error {
	epoch, newer := m.order(adv)
	receipt, err := m.PublishAdvertisement(context.Background(), adv.ClusterID, adv)
	switch {
	case newer < 0 && fault.ReasonOf(err) != fault.Conflict:
		return fmt.Errorf("advertisement %d of epoch %d of %s, which is overtaken, was answered with %v", adv.Sequence, adv.Epoch, adv.ClusterID, err)
	case newer < 0:
		return nil
	case err != nil:
		return err
	case receipt.Epoch != epoch:
		return fmt.Errorf("an advertisement of epoch %d of %s has epoch %d in its receipt, want %d", adv.Epoch, adv.ClusterID, receipt.Epoch, epoch)
	}
	if newer > 0 {
		m.hearIdle(adv, m.now())
	}
	m.hear(adv, said)
	return nil
}

// settleOffers makes the broker record pending offers, so that the compared figures are the
// newest ones.
func (m *machine) settleOffers() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.session.RecordOffers()
	return err
}

func (m *machine) offerByHand(c choose) (cause, error) {
	amounts := quantity.Amounts{corev1.ResourceCPU: int64(2+c(6)) * 1000, corev1.ResourceMemory: 16 << 30}
	m.sequence++
	offer := &ledger.Offer{
		ClusterID: "oslo", Capacity: amounts, Allocatable: amounts,
		Source: &ledger.Manifest{ObjectRef: ledger.ObjectRef{Namespace: "default", Name: "oslo", UID: "1"}, Digest: strconv.FormatInt(m.sequence, 10)},
	}
	if err := m.OfferManifest(context.Background(), offer); err != nil {
		return cause{}, err
	}
	m.hearManifest("oslo", &lender{amounts: amounts, heard: m.now()})
	return cause{}, nil
}

func (m *machine) reserveNew(c choose) (cause, error) {
	key := keyOf{oneOf(c, "rome", "rome", "athens", "paris"), fmt.Sprintf("request-%06d", m.steps)}
	return cause{}, m.ask(key, m.anyRequest(c))
}

// ask sends a request with an unused key, and checks the answer.
func (m *machine) ask(key keyOf, request *v1.ReservationRequest) error {
	able := m.able(key.requester, request, m.now())
	answer, err := m.RequestReservation(context.Background(), key.requester, key.key, request)
	switch reason := fault.ReasonOf(err); {
	case reason == fault.Recovering && m.now().Sub(m.began) < recovery.ListenGrace:
		return nil
	case reason == fault.NoCandidate && (len(able) == 0 || m.isHeldBack(key, request, able)):
		return nil
	case reason == fault.QueueFull && (len(able) == 0 || m.isHeldBack(key, request, able)) && m.countWaiting() >= ruledLength:
		return nil
	case err != nil:
		return fmt.Errorf("asking for %v: %w, while %v can give it", request.Resources, err, able)
	}
	if m.told[answer.Name] != nil {
		return fmt.Errorf("key %v was not used before, and gets %s", key, answer.Name)
	}
	if answer.Phase == v1.ReservationPhaseQueued {
		if len(able) > 0 && !m.isHeldBack(key, request, able) || answer.Queue == nil {
			return fmt.Errorf("%s waits with place %+v, while %v can give %v", answer.Name, answer.Queue, able, request.Resources)
		}
	} else if provider := answer.Placements[0].ClusterID; !slices.Contains(able, provider) {
		return fmt.Errorf("%s is to give %v, only %v could", provider, request.Resources, able)
	}
	m.enter(key, request, answer)
	return nil
}

// enter notes the answer to a request with an unused key.
func (m *machine) enter(key keyOf, request *v1.ReservationRequest, answer *v1.Reservation) *told {
	duration := time.Duration(request.DurationSeconds) * time.Second
	r := &told{
		keyOf: key, name: answer.Name, request: request, amounts: amountsOf(request.Resources), duration: duration,
		until: m.now().Add(duration), asked: m.now(), patient: request.Healing == v1.ReservationRequestHealingWait,
	}
	if answer.Phase != v1.ReservationPhaseQueued {
		r.granted = m.now()
	}
	m.told[r.name], m.keys[key] = r, r.name
	m.names = append(m.names, r.name)
	return r
}

// anyTold returns a reservation that is not forgotten, more often a newer one; nil if there is
// none.
func (m *machine) anyTold(c choose) *told {
	m.names = slices.DeleteFunc(m.names, func(name string) bool { return m.told[name] == nil })
	if len(m.names) == 0 {
		return nil
	}
	return m.told[m.names[max(c(len(m.names)), c(len(m.names)))]]
}

// reserveAgain repeats a request, or uses its key for a request with other amounts.
func (m *machine) reserveAgain(c choose) (cause, error) {
	r := m.anyTold(c)
	if r == nil {
		return cause{}, nil
	}
	again := *r.request
	request := &again
	request.Resources, request.DurationSeconds = written(r.wanted()), int64(r.duration/time.Second)
	request.Actor = anyUser(c) // a repetition may come from another user
	other := c(5) == 0
	if other {
		request.Resources["cpu"] += "00"
	}
	told := r.ended != "" && c(2) == 0
	if told {
		request.Reservation = r.name
	}
	answer, err := m.RequestReservation(context.Background(), r.requester, r.key, request)
	if r.ended == "" {
		r.asked = m.now() // a request with other amounts renews the lease, too
	}
	switch {
	case told && err == nil && answer.Name == r.name:
		return cause{}, nil
	case other && fault.ReasonOf(err) == fault.KeyReused:
		return cause{}, nil
	case err != nil || other:
		return cause{}, fmt.Errorf("asking again with %v (another request: %t): %+v, %w", r.keyOf, other, answer, err)
	case answer.Name != r.name:
		return cause{}, fmt.Errorf("key %v has the reservations %s and %s", r.keyOf, r.name, answer.Name)
	}
	return cause{}, nil
}

func (m *machine) releaseOne(c choose) (cause, error) {
	r := m.anyTold(c)
	if r == nil {
		return cause{}, nil
	}
	user := anyUser(c)
	answer, err := m.ReleaseReservation(context.Background(), r.requester, r.key, user)
	if err != nil {
		return cause{}, fmt.Errorf("releasing %v: %w", r.keyOf, err)
	}
	if answer == nil {
		answer = &v1.Reservation{Name: "none"}
	}
	if answer.Name != r.name {
		return cause{}, fmt.Errorf("key %v has the reservations %s and %s", r.keyOf, r.name, answer.Name)
	}
	return cause{released: r.name, by: user}, nil
}

// shutKey releases a key before its use. A later request with the key is refused.
func (m *machine) shutKey(c choose) (cause, error) {
	key := keyOf{"rome", fmt.Sprintf("shut-%06d", m.steps)}
	if answer, err := m.ReleaseReservation(context.Background(), key.requester, key.key, ""); err != nil || answer != nil {
		return cause{}, fmt.Errorf("releasing the unknown %v: %+v, %w", key, answer, err)
	}
	if c(4) == 0 {
		if _, err := m.restart(c); err != nil {
			return cause{}, err
		}
	}
	answer, err := m.RequestReservation(context.Background(), key.requester, key.key, m.anyRequest(c))
	if fault.ReasonOf(err) != fault.Released {
		return cause{}, fmt.Errorf("key %v was given back, asking with it: %+v, %w", key, answer, err)
	}
	return cause{}, nil
}

// reporting sends one side's report about a placement, whether it is expected or not.
func reporting(role v1.StatusReportRole, state v1.StatusReportState) func(*machine, choose) (cause, error) {
	return func(m *machine, c choose) (cause, error) {
		r := m.anyTold(c)
		if r == nil || len(r.placements) == 0 {
			return cause{}, nil
		}
		n := c(len(r.placements))
		p := r.placements[n]
		speaker, ref := r.requester, ledger.PlacementRef{Name: r.name, Placement: int32(n + 1)}
		if role == v1.StatusReportRoleProvider {
			speaker = p.provider
		}
		err := m.ReportStatus(context.Background(), speaker, r.name, &v1.StatusReport{Placement: ref.Placement, Role: role, State: state})
		early := state == v1.StatusReportStateVacant && fault.ReasonOf(err) == fault.Unavailable
		if reason := fault.ReasonOf(err); err != nil && reason != fault.Conflict && !early {
			return cause{}, fmt.Errorf("%s of %s: %w", state, ref, err)
		}
		frees := state == v1.StatusReportStateGone && p.givenUp || state == v1.StatusReportStateRefused && !p.acknowledged
		if role == v1.StatusReportRoleProvider && frees {
			return cause{gone: ref}, nil
		}
		return cause{}, nil
	}
}

func (m *machine) pass(d time.Duration) (cause, error) {
	m.clock.Add(int64(d))
	return cause{}, nil
}

func (m *machine) secondsPass(c choose) (cause, error) {
	return m.pass(time.Duration(1+c(20)) * time.Second)
}

// deadlineComes advances time to the next deadline, or to just before it.
func (m *machine) deadlineComes(c choose) (cause, error) {
	m.mu.Lock()
	_, next := m.session.PopDue(time.Time{})
	m.mu.Unlock()
	if next.IsZero() {
		return cause{}, nil
	}
	return m.pass(max(next.Sub(m.now())-time.Duration(c(2)), 0))
}

func (m *machine) dayPasses(choose) (cause, error) { return m.pass(25 * time.Hour) }

// restart kills the broker, starts another one on the same journal, and checks what it has read.
func (m *machine) restart(c choose) (cause, error) {
	if err := m.durable(); err != nil {
		return cause{}, err
	}
	// Half of the followers have not read since they began to follow.
	if m.next != nil && m.starts%4 == 0 {
		if err := m.next.standby.KeepUp(context.Background()); err != nil {
			return cause{}, err
		}
	}
	m.store.Stop()
	m.stop()
	m.start()
	m.oracle.restarted(m.now())
	if c(4) > 0 {
		return cause{}, m.configuredRightly()
	}
	return cause{}, m.replays()
}

func TestBrokerAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(0)
		defer func() { m.stop() }()
		pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
		actions := map[string]func(*rapid.T){}
		for _, kind := range kinds {
			actions[kind.name] = func(t *rapid.T) {
				runtest.Check(t, m.step(kind.name, kind.do, pick))
			}
		}
		t.Repeat(actions)
		runtest.Check(t, m.replays())
	})
}

// simulate runs one seed, and returns how often it performed each action. An error names the seed.
func simulate(seed int64, steps int) (map[string]int, error) {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	sum := 0
	for _, kind := range kinds {
		sum += kind.weight
	}
	m := newMachine(seed)
	defer func() { m.stop() }()
	for i := range steps {
		n, k := random.IntN(sum), 0
		for ; n >= kinds[k].weight; k++ {
			n -= kinds[k].weight
		}
		if err := m.step(kinds[k].name, kinds[k].do, random.IntN); err != nil {
			return nil, fmt.Errorf("step %d, %w (again with -broker.seed=%d)", i+1, err, seed)
		}
	}
	for _, check := range []func() error{m.replays, m.tablesRecorded} {
		if err := check(); err != nil {
			return nil, fmt.Errorf("%w (again with -broker.seed=%d)", err, seed)
		}
	}
	m.did["granted on new nodes"] = m.onNewNodes
	return m.did, nil
}

// TestSimulation runs the machine with one seed after the other, without shrinking, which is fast
// enough for a million steps (-broker.steps=1000000).
func TestSimulation(t *testing.T) {
	const stepsPerSeed = 400
	if *machineSeed >= 0 {
		if _, err := simulate(*machineSeed, stepsPerSeed); err != nil {
			t.Fatal(err)
		}
		return
	}
	steps := *machineSteps
	var next atomic.Int64
	var workers sync.WaitGroup
	var mu sync.Mutex
	did, failed := map[string]int{}, false
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := next.Add(1); int(seed) <= (steps+stepsPerSeed-1)/stepsPerSeed; seed = next.Add(1) {
				one, err := simulate(seed, stepsPerSeed)
				mu.Lock()
				for kind, n := range one {
					did[kind] += n
				}
				stop := failed
				if err != nil && !failed {
					failed = true
					t.Error(err)
				}
				mu.Unlock()
				if stop || err != nil {
					return
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%v", did)
}
