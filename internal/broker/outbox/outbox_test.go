package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// world is a journal with one writer and its receivers. It runs in a synctest bubble.
type world struct {
	server *journaltest.Server
	opts   journal.Options
	book   *replay.Book
	stop   func()

	writer  *journal.Journal
	offered int
	// maxQueue is the length of an outbox's queue in memory.
	maxQueue int
	// directory is the folder for exported files. ahead is by how much the clock of the outbox is
	// ahead: to wait for a day would take 86,400 polls.
	directory string
	ahead     time.Duration
	// sign signs the ends of exported files.
	sign trail.Sign

	// mu guards the fields below.
	mu       sync.Mutex
	position uint64
	// got holds the subjects that each channel has received; ids holds the IDs of the messages.
	got      map[string][]string
	ids      map[string][]string
	isDown   map[string]bool
	warnings []string
	current  *Outbox
}

func newWorld() *world {
	w := &world{
		server: journaltest.NewServer(), opts: journal.Options{SegmentBytes: 300, RetainFor: -1}, got: map[string][]string{}, ids: map[string][]string{}, isDown: map[string]bool{},
		maxQueue: defaultQueue,
	}
	w.server.Now = time.Now
	w.opts.Keep = func() uint64 {
		w.mu.Lock()
		current := w.current
		w.mu.Unlock()
		if current == nil {
			return 0
		}
		return current.Keep()
	}
	w.takeOver()
	return w
}

// takeOver opens the journal as a new leader.
func (w *world) takeOver() {
	j, recovery, err := journal.Open(context.Background(), w.server.Client(), "book", w.opts)
	if err == nil {
		w.book, err = replay.Read(recovery)
	}
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.Run(ctx) // ends with ctx
	}()
	w.writer, w.stop = j, func() { cancel(); <-done }
}

// join appends records with which n more clusters join.
func (w *world) join(n int) {
	for range n {
		w.offered++
		w.record(&ledger.Offer{ClusterID: fmt.Sprintf("c%d", w.offered), Agent: true, Capacity: quantity.Amounts{corev1.ResourceCPU: 1000}})
	}
}

func (w *world) record(change ledger.Change) {
	e := ledger.Event{At: time.Now().UTC(), Change: change}
	checked, err := w.book.State.Check(&e)
	if err != nil {
		panic(err)
	}
	data, err := e.MarshalJSON()
	if err != nil {
		panic(err)
	}
	commit := w.writer.Append(data)
	if err := commit.Wait(context.Background()); err != nil {
		panic(err)
	}
	w.book.ApplyEvent(checked, &e, commit.Position())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position = commit.Position()
}

func (w *world) checkpoint() {
	frozen, err := w.book.Freeze().Encode()
	if err == nil {
		err = w.writer.Checkpoint(context.Background(), frozen, w.position, time.Now())
	}
	if err != nil {
		panic(err)
	}
}

// start runs an outbox like a replica that has just begun to serve. kill ends it like a crash.
func (w *world) start(channels ...notify.Channel) (o *Outbox, kill func()) {
	ctx, cancel := context.WithCancel(context.Background())
	client := w.server.Client()
	serves := true
	done := make(chan struct{})
	close(done)
	o = New(Options{
		Store: client, Journal: "book", Directory: w.directory, SignHead: w.sign, JournalOptions: w.opts, Now: w.now, Log: logr.Discard(),
		Position: func() (uint64, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.position, serves
		},
		Warn: func(reason, note string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.warnings = append(w.warnings, reason+": "+note)
		},
		Start: func(run func(context.Context) error) error {
			done = make(chan struct{})
			go func() {
				defer close(done)
				_ = run(ctx) // ends with ctx
			}()
			return nil
		},
	})
	o.send, o.maxQueue, o.files.maxFile = w.receive, w.maxQueue, 3000
	if w.directory != "" {
		o.send = o.transmit
	}
	w.mu.Lock()
	w.current = o
	w.mu.Unlock()
	if err := o.SetChannels(channels); err != nil {
		panic(err)
	}
	return o, func() {
		client.Stop() // from now on, this broker cannot write to the cluster
		w.mu.Lock()
		serves = false
		w.mu.Unlock()
		cancel()
		<-done
		for _, a := range o.files.archives { // files.use does not wait for a write that is under way
			a.busy <- struct{}{}
			<-a.busy
		}
	}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

func (w *world) skip(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
}

var errDown = errors.New("the receiver is down")

func (w *world) receive(_ context.Context, c *notify.Channel, journalID string, events []notify.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isDown[c.Name] {
		return errDown
	}
	for i := range events {
		w.got[c.Name] = append(w.got[c.Name], events[i].Subject)
	}
	w.ids[c.Name] = append(w.ids[c.Name], notify.Compose(c.Name, journalID, events).ID)
	return nil
}

func (w *world) setDown(channel string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isDown[channel] = down
}

func (w *world) received(channel string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.got[channel], " ")
}

func bus(name string) notify.Channel {
	return notify.Channel{Name: name, Events: []string{"*"}, URL: "https://bus.example/in"}
}

func chat(name string, wait time.Duration) notify.Channel {
	return notify.Channel{Name: name, Events: []string{"*"}, Slack: true, GroupWait: wait}
}

func TestChannelGetsWhatHappensAfterItWasAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.stop()
		w.join(2)
		o, kill := w.start(bus("bus"))
		defer kill()
		rest(2 * time.Second)
		w.join(2)
		rest(2 * time.Second)
		if got := w.received("bus"); got != "c3 c4" {
			t.Errorf("the channel received %q", got)
		}
		runtest.Check(t, o.SetChannels([]notify.Channel{bus("bus"), bus("late")}))
		rest(2 * time.Second)
		w.join(1)
		rest(2 * time.Second)
		if got := []string{w.received("bus"), w.received("late")}; !slices.Equal(got, []string{"c3 c4 c5", "c5"}) {
			t.Errorf("the channels received %q", got)
		}
	})
}

func TestOutboxWithoutChannelsStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.stop()
		count := func() int {
			n := 0
			for _, obj := range w.server.Objects() {
				if obj.Labels[labelCursors] != "" {
					n++
				}
			}
			return n
		}
		o, kill := w.start()
		defer kill()
		w.join(1)
		rest(time.Hour)
		if o.started || count() != 0 || o.Keep() != ^uint64(0) {
			t.Errorf("without channels: started %v, %d objects, keeps records after %d", o.started, count(), o.Keep())
		}
		runtest.Check(t, o.SetChannels([]notify.Channel{bus("bus")}))
		rest(2 * time.Second)
		if count() != 1 || o.Keep() == 0 || o.Keep() > w.position {
			t.Errorf("with a channel: %d objects, keeps records after %d", count(), o.Keep())
		}
		runtest.Check(t, o.SetChannels(nil))
		rest(2 * time.Second)
		if count() != 0 {
			t.Errorf("without a channel again: %d objects", count())
		}
	})
}

func TestMessagesContainWhatHappensWithinGroupWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.stop()
		_, kill := w.start(chat("chat", 30*time.Second), chat("quick", 0))
		defer kill()
		rest(2 * time.Second)
		w.join(2)
		rest(10 * time.Second)
		w.join(1)
		if got := w.received("chat"); got != "" {
			t.Errorf("before groupWait has passed the chat received %q", got)
		}
		rest(25 * time.Second)
		w.join(1)
		rest(time.Minute)
		if got := []int{len(w.ids["chat"]), len(w.ids["quick"])}; !slices.Equal(got, []int{2, 3}) || w.received("chat") != "c1 c2 c3 c4" {
			t.Errorf("got %d messages, chat received %q", got, w.received("chat"))
		}
	})
}

func TestReceiverThatIsDownGetsEverythingLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.stop()
		o, kill := w.start(bus("bus"), bus("other"))
		defer kill()
		rest(2 * time.Second)
		w.setDown("bus", true)
		w.join(3)
		rest(time.Hour)
		if got := w.received("other"); got != "c1 c2 c3" {
			t.Errorf("the other channel received %q", got)
		}
		if lag := lagOf(t, o, "bus"); lag < 3600 || lag > 3700 {
			t.Errorf("the channel lags by %v s", lag)
		}
		w.setDown("bus", false)
		rest(lastRetry + 2*time.Second)
		if got, lag := w.received("bus"), lagOf(t, o, "bus"); got != "c1 c2 c3" || lag != 0 {
			t.Errorf("the channel received %q and lags by %v s", got, lag)
		}
		if want := []string{"NotificationsFailing: channel bus: the receiver is down; the broker goes on trying for 24h"}; !cmp.Equal(w.warnings, want) {
			t.Error(cmp.Diff(want, w.warnings))
		}
	})
}

func lagOf(t *testing.T, o *Outbox, channel string) float64 {
	t.Helper()
	exported := make(chan prometheus.Metric, 100)
	o.Collect(exported)
	close(exported)
	for metric := range exported {
		var m dto.Metric
		runtest.Check(t, metric.Write(&m))
		if m.GetGauge() != nil && m.GetLabel()[0].GetValue() == channel {
			return m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no lag of channel %s", channel)
	return 0
}

func TestLagGrowsWhileTheJournalCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.stop()
		o, kill := w.start(bus("bus"))
		defer kill()
		rest(2 * time.Second)
		o.opts.Store.(*journaltest.Client).Stop()
		w.join(1)
		rest(time.Hour)
		if lag := lagOf(t, o, "bus"); lag < 3590 || lag > 3610 {
			t.Errorf("the channel lags by %v s", lag)
		}
	})
}

func TestEventsAreDroppedAfterADayAndTheNextOnesAreDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.stop()
		_, kill := w.start(bus("bus"))
		rest(2 * time.Second)
		w.setDown("bus", true)
		w.join(2)
		rest(20 * time.Hour)
		w.join(1)
		kill() // a new leader continues the day that the former one began
		o, kill := w.start(bus("bus"))
		defer kill()
		rest(4*time.Hour + 2*lastRetry)
		w.setDown("bus", false)
		rest(2 * lastRetry)
		if got := w.received("bus"); got != "c3" {
			t.Errorf("the channel received %q", got)
		}
		if got := testutil.ToFloat64(o.meter.exports.WithLabelValues("bus", resultDropped)); got != 2 {
			t.Errorf("%v events were dropped", got)
		}
		if !slices.Contains(w.warnings, "NotificationsDropped: channel bus: dropped 2 events that could not be delivered for 24h") {
			t.Errorf("warnings: %q", w.warnings)
		}
	})
}

func TestRetentionWaitsForTheSlowestChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.stop()
		_, kill := w.start(bus("bus"), bus("slow"))
		rest(2 * time.Second)
		w.setDown("slow", true)
		for range 6 {
			w.join(20)
			rest(10 * time.Second)
			w.checkpoint()
		}
		kill()
		_, kill = w.start(bus("bus"), bus("slow"))
		defer kill()
		w.setDown("slow", false)
		rest(2 * lastRetry)
		if all, slow := w.received("bus"), w.received("slow"); all != slow || len(w.got["bus"]) != 120 {
			t.Errorf("the slow channel received\n%q, the other\n%q", slow, all)
		}
		if len(w.warnings) > 1 {
			t.Errorf("warnings: %q", w.warnings)
		}
	})
}

func TestChannelWhoseRecordsAreGoneContinuesAtTheEnd(t *testing.T) {
	cases := map[string]func(*world){
		"they were deleted": func(w *world) {
			w.opts.Keep = nil
			w.stop()
			w.takeOver()
			w.join(50)
			w.checkpoint()
			w.join(50)
			w.checkpoint()
		},
		"the cursor is of another journal": func(w *world) {
			w.server.Tamper("book-notifications", func(obj *journal.Object) bool {
				obj.Data["bus"] = `{"journal":"other","position":3,"hash":"00"}`
				return true
			})
		},
		"the journal was restored from an older state": func(w *world) {
			w.server.Tamper("book-notifications", func(obj *journal.Object) bool {
				obj.Data["bus"] = strings.ReplaceAll(obj.Data["bus"], `"position":`, `"position":9`)
				return true
			})
		},
		"the journal took another course": func(w *world) {
			w.server.Tamper("book-notifications", func(obj *journal.Object) bool {
				obj.Data["bus"] = strings.ReplaceAll(obj.Data["bus"], `"hash":"`, `"hash":"0`)
				return true
			})
			w.join(1)
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				defer func() { w.stop() }()
				_, kill := w.start(bus("bus"))
				rest(2 * time.Second)
				w.join(2)
				rest(2 * time.Second)
				kill()
				change(w)
				_, kill = w.start(bus("bus"))
				defer kill()
				rest(time.Minute)
				w.mu.Lock()
				w.got["bus"] = nil
				w.mu.Unlock()
				last := w.offered
				w.join(2)
				rest(2 * time.Second)
				if got, want := w.received("bus"), fmt.Sprintf("c%d c%d", last+1, last+2); got != want {
					t.Errorf("the channel received %q, want %q", got, want)
				}
				if len(w.warnings) != 1 || !strings.HasPrefix(w.warnings[0], "NotificationsLost: channel bus: events before ") {
					t.Errorf("warnings: %q", w.warnings)
				}
			})
		})
	}
}

func TestChannelWithAFullQueueReadsTheRestFromTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.stop()
		w.maxQueue = 50
		o, kill := w.start(bus("bus"), bus("slow"))
		defer kill()
		rest(2 * time.Second)
		w.setDown("slow", true)
		w.join(120)
		rest(10 * time.Second)
		o.mu.Lock()
		queued := len(o.couriers[1].queue)
		o.mu.Unlock()
		if queued != 50 {
			t.Errorf("%d events are in memory", queued)
		}
		w.setDown("slow", false)
		rest(2 * lastRetry)
		if all, slow := w.received("bus"), w.received("slow"); all != slow || len(w.got["bus"]) != 120 {
			t.Errorf("the slow channel received %d of %d events", len(w.got["slow"]), len(w.got["bus"]))
		}
	})
}

// Leaders and receivers fail at random. Every channel still receives all events in order, at least once.
func TestEverythingArrivesInOrderWhateverIsKilled(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"join", "join", "join", "kill", "takeover", "down", "up", "wait", "rest", "checkpoint", "reconfigure"}), 1, 40).Draw(rt, "steps")
		waits := rapid.SliceOfN(rapid.IntRange(0, 3000), len(steps), len(steps)).Draw(rt, "milliseconds")
		var problem string
		synctest.Test(t, func(*testing.T) { problem = playSteps(steps, waits) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

func playSteps(steps []string, waits []int) string {
	w := newWorld()
	defer func() { w.stop() }()
	channels := []notify.Channel{bus("bus"), chat("chat", 5*time.Second), chat("quick", 0)}
	o, kill := w.start(channels...)
	defer func() { kill() }()
	rest(2 * time.Second)
	for i, step := range steps {
		switch step {
		case "join":
			w.join(1 + waits[i]%4)
		case "kill":
			kill()
			o, kill = w.start(channels...)
		case "takeover":
			w.stop()
			w.takeOver()
		case "down", "up":
			w.setDown(channels[waits[i]%3].Name, step == "down")
		case "wait":
			rest(time.Duration(waits[i]) * time.Millisecond)
		case "rest":
			rest(time.Duration(waits[i]) * time.Second)
		case "checkpoint":
			if w.position > 0 {
				w.checkpoint()
			}
		case "reconfigure":
			channels = slices.Clone(channels)
			channels[0].URL += "?"
			if err := o.SetChannels(channels); err != nil {
				return err.Error()
			}
		}
	}
	for _, c := range channels {
		w.setDown(c.Name, false)
	}
	rest(3 * lastRetry)
	kill() // so that nothing else is received during the checks
	want := ""
	for i := range w.offered {
		want += fmt.Sprintf(" c%d", i+1)
	}
	for _, c := range channels {
		if got := firsts(w.got[c.Name]); got != want {
			return fmt.Sprintf("%s received %s, want %s; all of it: %v; warnings %q", c.Name, got, want, w.got[c.Name], w.warnings)
		}
		if problem := checkRepeats(w.ids[c.Name]); problem != "" {
			return c.Name + ": " + problem
		}
	}
	return ""
}

// firsts returns the subjects in the order in which they arrived first.
func firsts(all []string) string {
	seen := map[string]bool{}
	out := ""
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			out += " " + s
		}
	}
	return out
}

// checkRepeats returns a problem if two different messages overlap: a repeated message must have the same ID, which
// names its first and last event.
func checkRepeats(ids []string) string {
	by := map[string]string{}
	for _, id := range ids {
		for end := range strings.SplitSeq(id, "_") {
			if known, exists := by[end]; exists && known != id {
				return fmt.Sprintf("messages %s and %s overlap", known, id)
			}
			by[end] = id
		}
	}
	return ""
}

// rest lets d pass in the bubble, and waits until all goroutines are idle. The test may then read what they have
// written.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
