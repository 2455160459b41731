package admission

import (
	"cmp"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/fitting"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// traceFolder is a folder with nodes.csv and pods.csv. Their columns are those of openb_node_list_gpu_node.csv and
// openb_pod_list_default.csv of cluster-trace-gpu-v2023 in github.com/alibaba/clusterdata.
var traceFolder = flag.String("admission.trace", "", "folder with nodes.csv and pods.csv of a GPU trace for TestEveryGrantOfATraceCanBeScheduled; if unset, the trace is synthetic")

// TestEveryGrantOfATraceCanBeScheduled replays a trace with the broker's decisions, the admission of each provider's
// agent, and a scheduler. The broker makes up to 20 grants between two advertisements, so it decides with outdated
// figures. Nevertheless every pod that an acknowledged placement named must find a node, in whichever order pods start
// and wherever the scheduler puts them. The log compares the GPUs that are granted with those of a replay in which each
// pod starts at once, on the fullest node, so that there is nothing to be uncertain about. Short runs leave that out, and
// replay the first jobs of the synthetic trace on as many nodes per cluster.
func TestEveryGrantOfATraceCanBeScheduled(t *testing.T) {
	nodes, traced := syntheticTrace(rand.New(rand.NewPCG(3, 0)))
	clusters := 20
	switch {
	case *traceFolder != "":
		nodes, traced = readTrace(t, *traceFolder)
		clusters = 100
	case testing.Short():
		nodes, traced, clusters = nodes[:24], traced[:140], 3
	}
	for name, vary := range map[string]func(*rand.Rand, *job){
		"one size":            func(*rand.Rand, *job) {},
		"several sizes":       addSizes,
		"half without shapes": func(random *rand.Rand, j *job) { j.shapeless = random.IntN(2) == 0 },
	} {
		jobs, random := slices.Clone(traced), rand.New(rand.NewPCG(9, 0))
		for i := range jobs {
			vary(random, &jobs[i])
		}
		best := 0.0
		for _, schedule := range []schedule{{atOnce: true}, {}, {spreads: true}, {stays: true}, {spreads: true, stays: true}} {
			if schedule.stays && name != "one size" || schedule.atOnce && testing.Short() {
				continue
			}
			t.Run(name+schedule.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newReplay(t, nodes, clusters, schedule.spreads)
					for _, j := range jobs {
						if !schedule.stays {
							r.endUntil(j.from)
						}
						r.request(j)
						if schedule.atOnce {
							r.startAll()
						}
						r.gpusOverTime += r.gpusGranted
					}
					r.startAll()
					share := float64(r.gpusOverTime) / float64(r.gpus*int64(len(jobs)))
					switch {
					case schedule.atOnce:
						best = share
					case best > 0 && !schedule.stays:
						t.Logf("%.1f %% of the GPUs that are granted if all pods start at once", 100*share/best)
					}
					t.Logf("%d requests: %d granted, %d without a provider; %.2f refusals by providers per grant; of %d pods with shapes %d found no node, of %d without shapes %d; %.1f %% of the GPUs granted on average",
						len(jobs), r.granted, r.unplaced, float64(r.refused)/float64(max(1, r.granted)), r.pods[true], r.stuck[true], r.pods[false], r.stuck[false], 100*share)
					if r.stuck[true] > 0 {
						t.Errorf("%d of %d pods of acknowledged placements found no node, want 0", r.stuck[true], r.pods[true])
					}
					if r.granted == 0 || r.pods[true]+r.pods[false] < r.granted {
						t.Errorf("%d placements and %v pods were made: the replay shows nothing", r.granted, r.pods)
					}
				})
			})
		}
	}
}

// schedule says when pods start and end, and where.
type schedule struct{ atOnce, spreads, stays bool }

func (s schedule) String() string {
	out := map[bool]string{false: ", the scheduler packs", true: ", the scheduler spreads"}[s.spreads]
	out += map[bool]string{false: "", true: ", and all start at once"}[s.atOnce]
	return out + map[bool]string{false: ", and pods end", true: ", and no pod ends"}[s.stays]
}

const gpus corev1.ResourceName = "nvidia.com/gpu"

type traceNode struct {
	size  quantity.Amounts
	model string
}

// job is a group of pods. Its times are in seconds.
type job struct {
	from, to int64
	pods     []fitting.Pods
	// shapeless is true if the request names only the sum of the pods.
	shapeless bool
	// model is the GPU model that its pods need; "" for any.
	model string
}

// syntheticTrace returns nodes and jobs that resemble the public trace: nodes with 2 to 8 GPUs, and long-lived and
// short-lived jobs, most of whose pods need one GPU or none.
func syntheticTrace(random *rand.Rand) ([]traceNode, []job) {
	pick := func(of ...int64) int64 { return of[random.IntN(len(of))] }
	nodes := make([]traceNode, 160)
	for i := range nodes {
		n := pick(2, 2, 4, 8, 8, 8)
		nodes[i] = traceNode{amountsOfPod(n*12_000, n*48<<10, n), []string{"T4", "V100", "G2"}[random.IntN(3)]}
	}
	jobs := make([]job, 900)
	for i := range jobs {
		j := &jobs[i]
		n := pick(0, 1, 1, 1, 1, 2, 4, 8)
		j.from = int64(i) * 60
		j.to = j.from + pick(300, 3_000, 30_000, 300_000)
		each := amountsOfPod(pick(1, 2, 4, 8, 12)*1000*max(n, 1), pick(2, 8, 16, 32)<<10*max(n, 1), n)
		j.pods = []fitting.Pods{{Count: podsOf(random, n), Each: each}}
		if n > 0 && random.IntN(8) == 0 {
			j.model = "V100"
		}
	}
	return nodes, jobs
}

// podsOf returns how many pods a job gets if each of its pods has n GPUs.
func podsOf(random *rand.Rand, n int64) int64 {
	if n > 2 {
		return 1
	}
	return []int64{1, 1, 1, 2, 4}[random.IntN(5)]
}

// addSizes gives a job up to two more sizes of pods, which are smaller than the first.
func addSizes(random *rand.Rand, j *job) {
	size := j.pods[0].Each
	for i := range random.Int64N(3) {
		each := amountsOfPod(max(1, size[corev1.ResourceCPU]/(i+2)/1000)*1000, max(1, size[corev1.ResourceMemory]>>20/(i+2)), size[gpus]/(i+2))
		j.pods = append(slices.Clone(j.pods), fitting.Pods{Count: 1 + random.Int64N(2), Each: each})
	}
}

// total returns the sum of the job's pods.
func (j *job) total() quantity.Amounts {
	sum := quantity.Amounts{}
	for _, p := range j.pods {
		sum = sum.Add(p.Each.Times(p.Count))
	}
	return sum
}

// shapes returns the pods that the request names.
func (j *job) shapes() (shapes []brokerv1alpha1.PodShape) {
	for _, p := range j.pods {
		if !j.shapeless {
			shapes = append(shapes, brokerv1alpha1.PodShape{Count: int32(p.Count), Resources: brokerv1alpha1.PodResources(p.Each.ToResourceList())})
		}
	}
	return shapes
}

func amountsOfPod(milliCPU, mebibytes, gpu int64) quantity.Amounts {
	out := quantity.Amounts{corev1.ResourceCPU: milliCPU, corev1.ResourceMemory: mebibytes << 20}
	if gpu > 0 {
		out[gpus] = gpu
	}
	return out
}

func readTrace(t *testing.T, folder string) (nodes []traceNode, jobs []job) {
	t.Helper()
	for _, row := range readTable(t, filepath.Join(folder, "nodes.csv")) {
		nodes = append(nodes, traceNode{amountsOfPod(row.number("cpu_milli"), row.number("memory_mib"), row.number("gpu")), row["model"]})
	}
	random := rand.New(rand.NewPCG(5, 0))
	for _, row := range readTable(t, filepath.Join(folder, "pods.csv")) {
		n := row.number("num_gpu")
		each := amountsOfPod(max(row.number("cpu_milli"), 1), max(row.number("memory_mib"), 1), n)
		j := job{from: row.number("creation_time"), to: row.number("deletion_time"), pods: []fitting.Pods{{Count: podsOf(random, n), Each: each}}, model: row["gpu_spec"]}
		if slices.ContainsFunc(nodes, func(n traceNode) bool { return n.model == j.model }) || j.model == "" {
			jobs = append(jobs, j) // a node selector cannot name alternatives such as V100M16|V100M32
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(a.from, b.from) })
	return nodes, jobs
}

type row map[string]string

func (r row) number(column string) int64 {
	n, _ := strconv.ParseInt(r[column], 10, 64) // 0 if empty
	return n
}

func readTable(t *testing.T, file string) (rows []row) {
	t.Helper()
	in, err := os.Open(file)
	runtest.Check(t, err)
	defer in.Close() //nolint:errcheck // the file is only read, so an error does not matter
	lines, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, line := range lines[1:] {
		r := row{}
		for i, name := range lines[0] {
			r[name] = line[i]
		}
		rows = append(rows, r)
	}
	return rows
}

// replay is a broker with the providers on which a trace is replayed.
type replay struct {
	*testing.T
	broker    *broker.Broker
	random    *rand.Rand
	providers map[string]*site
	order     []*site
	spreads   bool
	sequence  int64
	// untilNext counts the grants until the next advertisements.
	untilNext int
	running   []*granted
	waiting   []waiting

	granted, refused, unplaced, requests int
	// pods and stuck count pods of placements with shapes (true) and without.
	pods, stuck                     map[bool]int
	gpus, gpusGranted, gpusOverTime int64
}

// waiting is a pod that has not started.
type waiting struct {
	*granted
	each quantity.Amounts
}

// granted is a placement that its provider has acknowledged.
type granted struct {
	job
	reservation, consumer string
	placement             int32
	site                  *site
	inst                  *agentv1alpha1.ProviderInstruction
	started               []started
}

// started is a pod and the node on which it runs.
type started struct {
	node *siteNode
	each quantity.Amounts
}

// site is a provider: its nodes and its agent's admission.
type site struct {
	id         string
	nodes      []*siteNode
	placements map[string]*granted
	admission  *Admitter
}

type siteNode struct {
	traceNode
	free quantity.Amounts
}

func newReplay(t *testing.T, nodes []traceNode, clusters int, spreads bool) *replay {
	b := broker.New(broker.Options{Store: journaltest.NewServer().Client(), Version: "test", Log: logr.Discard(), Now: time.Now})
	config := settings.Default()
	config.Queue.MaxLength = 0
	b.SetConfig(t.Context(), config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
	r := &replay{T: t, broker: b, random: rand.New(rand.NewPCG(1, 2)), pods: map[bool]int{}, stuck: map[bool]int{}, providers: map[string]*site{}, spreads: spreads}
	for i := range clusters {
		s := &site{id: fmt.Sprintf("lender-%03d", i), placements: map[string]*granted{}}
		s.admission = New(s, s, "default", func() offering.Rules { return offering.Rules{} }, unready(false, nil))
		r.providers[s.id], r.order = s, append(r.order, s)
	}
	for i, n := range nodes {
		s := r.order[i%clusters]
		n.size = n.size.Max(quantity.Amounts{corev1.ResourcePods: 110})
		s.nodes = append(s.nodes, &siteNode{traceNode: n, free: n.size.Max(nil)})
		r.gpus += n.size[gpus]
	}
	r.advertiseAll()
	return r
}

// advertiseAll sends the advertisement of every provider, and sets the number of grants until the next ones.
func (r *replay) advertiseAll() {
	r.sequence++
	r.untilNext = 1 + r.random.IntN(20)
	for _, s := range r.order {
		snapshot := s.Snapshot()
		adv := &v1.Advertisement{
			ClusterID: s.id, Epoch: 1, Sequence: r.sequence, EndpointURL: "https://" + s.id + ".example:6443",
			Capacity: wire.FromAmounts(snapshot.Capacity), Allocatable: wire.FromAmounts(snapshot.Allocatable), Allocated: v1.Amounts{},
		}
		for _, n := range s.nodes {
			adv.NodeShapes = append(adv.NodeShapes, v1.NodeShape{Count: 1, Free: wire.FromAmounts(n.free), NodeLabels: v1.Labels{"gpu-model": n.model}})
		}
		for _, p := range s.placements {
			adv.Usage = append(adv.Usage, v1.Usage{Reservation: p.reservation, Placement: p.placement, Used: wire.FromAmounts(p.used())})
		}
		if _, err := r.broker.PublishAdvertisement(r.Context(), s.id, adv); err != nil {
			r.Fatalf("advertising %s: %v", s.id, err)
		}
	}
}

// request asks for a job's pods, and lets one provider after the other decide, until one accepts or the broker finds no
// more.
func (r *replay) request(j job) {
	r.requests++
	consumer := fmt.Sprintf("user-%03d", r.requests%200)
	ask := &v1.ReservationRequest{Resources: wire.FromAmounts(j.total()), PodShapes: wire.FromPodShapes(j.shapes())}
	if j.model != "" {
		ask.Constraints = &v1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"gpu-model": brokerv1alpha1.LabelValue(j.model)}}
	}
	answer, err := r.broker.RequestReservation(r.Context(), consumer, fmt.Sprintf("request-%06d", r.requests), ask)
	for {
		switch {
		case fault.ReasonOf(err) == fault.NoCandidate:
			r.unplaced++
			return
		case err != nil:
			r.Fatalf("request %d: %v", r.requests, err)
		case answer.Phase == v1.ReservationPhaseFailed:
			r.unplaced++
			return
		}
		newest := answer.Placements[len(answer.Placements)-1]
		g := &granted{job: j, reservation: answer.Name, consumer: consumer, placement: newest.Number, site: r.providers[newest.ClusterID]}
		if r.decide(g) {
			break
		}
		answer, err = r.broker.GetReservation(r.Context(), consumer, answer.Name)
	}
	if r.untilNext--; r.untilNext == 0 {
		time.Sleep(30 * time.Second)
		r.startSome()
		r.advertiseAll()
	}
}

// decide lets the provider's agent decide about a placement, reports the decision to the broker, and returns whether
// the placement was accepted.
func (r *replay) decide(g *granted) bool {
	g.inst = provides(brokerv1alpha1.PlacementName(g.reservation, g.placement), "1", agentv1alpha1.InstructionPending, false)
	g.inst.Spec.Resources, g.inst.Spec.PodShapes = g.total().ToResourceList(), g.shapes()
	if g.model != "" {
		g.inst.Spec.NodeSelector = map[string]brokerv1alpha1.LabelValue{"gpu-model": brokerv1alpha1.LabelValue(g.model)}
	}
	decision, err := g.site.admission.Admit(r.Context(), g.inst)
	runtest.Check(r, err)
	if !decision.Admitted {
		r.refused++
		r.report(g, g.site.id, v1.StatusReportRoleProvider, v1.StatusReportStateRefused, decision.Reason)
		return false
	}
	r.granted++
	r.gpusGranted += g.total()[gpus]
	g.inst.Status.Phase, g.inst.Status.Enforced = agentv1alpha1.InstructionActive, true
	g.site.placements[g.inst.Name] = g
	r.running = append(r.running, g)
	for _, p := range g.job.pods {
		r.waiting = append(r.waiting, slices.Repeat([]waiting{{g, p.Each}}, int(p.Count))...)
	}
	r.report(g, g.site.id, v1.StatusReportRoleProvider, v1.StatusReportStateAcknowledged, "")
	r.report(g, g.consumer, v1.StatusReportRoleConsumer, v1.StatusReportStateReady, "")
	r.startSome()
	return true
}

func (r *replay) report(g *granted, by string, role v1.StatusReportRole, state v1.StatusReportState, reason string) {
	report := &v1.StatusReport{Placement: g.placement, Role: role, State: state, Reason: reason}
	if err := r.broker.ReportStatus(r.Context(), by, g.reservation, report); err != nil {
		r.Fatalf("%s reports %s of %s-%d: %v", by, state, g.reservation, g.placement, err)
	}
}

// startSome starts about a tenth of the waiting pods, in random order.
func (r *replay) startSome() {
	r.random.Shuffle(len(r.waiting), func(i, j int) { r.waiting[i], r.waiting[j] = r.waiting[j], r.waiting[i] })
	n := (len(r.waiting) + r.random.IntN(10)) / 10
	for _, w := range r.waiting[:n] {
		r.start(w)
	}
	r.waiting = r.waiting[n:]
}

func (r *replay) startAll() {
	for len(r.waiting) > 0 {
		r.startSome()
	}
}

// start schedules one pod of a placement: if pods spread, on the emptiest node with room, otherwise on the fullest. A
// pod that finds no room is counted in stuck.
func (r *replay) start(w waiting) {
	r.pods[!w.shapeless]++
	each := w.each.Max(quantity.Amounts{corev1.ResourcePods: 1})
	var best *siteNode
	for _, n := range w.site.nodes {
		if _, fits := quantity.Fits(each, n.free); !fits || w.model != "" && n.model != w.model {
			continue
		}
		if best == nil || r.spreads && n.emptiness() > best.emptiness() || !r.spreads && n.emptiness() < best.emptiness() {
			best = n
		}
	}
	if best == nil {
		r.stuck[!w.shapeless]++
		return
	}
	best.free = best.free.Sub(each)
	w.started = append(w.started, started{best, each})
}

// emptiness returns the free share of each resource of the node, averaged over the resources.
func (n *siteNode) emptiness() float64 {
	sum := 0.0
	for name, whole := range n.size {
		sum += float64(n.free[name]) / float64(max(1, whole))
	}
	return sum / float64(len(n.size))
}

// endUntil ends the jobs that end at now or earlier. It first starts those of their pods that have not started.
func (r *replay) endUntil(now int64) {
	r.running = slices.DeleteFunc(r.running, func(g *granted) bool {
		if g.to > now {
			return false
		}
		r.waiting = slices.DeleteFunc(r.waiting, func(w waiting) bool {
			if w.granted == g {
				r.start(w)
			}
			return w.granted == g
		})
		for _, p := range g.started {
			p.node.free = p.node.free.Add(p.each)
		}
		r.gpusGranted -= g.total()[gpus]
		delete(g.site.placements, g.inst.Name)
		if _, err := r.broker.ReleaseReservation(r.Context(), g.consumer, g.reservation, ""); err != nil {
			r.Fatal(err)
		}
		r.report(g, g.consumer, v1.StatusReportRoleConsumer, v1.StatusReportStateGone, "")
		r.report(g, g.site.id, v1.StatusReportRoleProvider, v1.StatusReportStateGone, "")
		return true
	})
}

func (g *granted) used() quantity.Amounts {
	out := quantity.Amounts{}
	for _, p := range g.started {
		out = out.Add(p.each)
	}
	return out
}

// The methods below let admission use a site as its client and as its measure of free capacity.

func (s *site) Synced() <-chan struct{} { return fixed{}.Synced() }

func (s *site) Snapshot() capacity.Snapshot {
	out := capacity.Snapshot{Capacity: quantity.Amounts{}, Used: map[string]quantity.Amounts{}}
	for _, n := range s.nodes {
		out.Capacity = out.Capacity.Add(n.size)
	}
	out.Allocatable = out.Capacity
	for name, p := range s.placements {
		if used := p.used(); !used.IsZero() {
			out.Used[name] = used
		}
	}
	out.NodeShapes = s.Layout().Nodes
	return out
}

func (s *site) Layout() capacity.Layout {
	out := capacity.Layout{Running: map[string][]quantity.Amounts{}}
	for _, n := range s.nodes {
		out.Nodes = append(out.Nodes, quantity.NodeShape{Count: 1, Free: n.free, Labels: map[string]string{"gpu-model": n.model}})
	}
	for name, p := range s.placements {
		for _, pod := range p.started {
			out.Running[name] = append(out.Running[name], pod.each)
		}
	}
	return out
}

// Get implements client.Reader: there is no LendingPolicy.
func (s *site) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "lendingpolicies"}, key.Name)
}

// List implements client.Reader for ProviderInstructions.
func (s *site) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	out := list.(*agentv1alpha1.ProviderInstructionList)
	for _, p := range s.placements {
		out.Items = append(out.Items, *p.inst)
	}
	return nil
}
