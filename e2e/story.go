package e2e

import (
	"context"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// Figures are durations that a story measures.
type Figures struct {
	// NodeReady is the time from the creation of the request until its virtual node was Ready. The two clusters were
	// not peered before.
	NodeReady time.Duration
	// PodRunning is the time from the creation of the request until pods were running on its virtual node.
	PodRunning time.Duration
}

// storyNamespace is the namespace in rome for the requests and pods of the story.
const storyNamespace = "demo"

// Samples are the manifests that a story applies.
type Samples struct {
	Request, GPURequest, LargeRequest, Deployment []byte
}

// story is one run of the function Story.
type story struct {
	*Environment
	*Narrator
	samples Samples
	figures Figures
	before  map[string]Capacity
	// asked is when the first request was created.
	asked   time.Time
	request *agentv1alpha1.ResourceRequest
	gpu     *agentv1alpha1.ResourceRequest
}

// Story runs the main use case once, from the advertisements to the release of all capacity, and describes it on
// out. An error is of type *Failure.
func Story(ctx context.Context, env *Environment, samples Samples, out io.Writer) (Figures, error) {
	s := &story{Environment: env, Narrator: NewNarrator(out), samples: samples}
	chapters := []struct {
		name string
		tell func(context.Context) error
	}{
		{"clusters advertise what they have", s.advertise},
		{"rome asks for capacity", s.ask},
		{"the clusters peer", s.peer},
		{"pods run on the virtual node", s.run},
		{"rome asks for a GPU", s.askForGPU},
		{"rome asks for more than anybody has", s.askTooMuch},
		{"everything is given back", s.giveBack},
	}
	for _, c := range chapters {
		s.Chapter("%s", c.name)
		if err := c.tell(ctx); err != nil {
			return s.figures, s.failure(c.name, err)
		}
	}
	return s.figures, nil
}

func (s *story) rome() *Cluster { return s.Member("rome") }

func (s *story) failure(step string, err error) error {
	f := &Failure{Step: step, Object: "ResourceRequest " + storyNamespace + "/my-request in rome", Log: s.rome().Log, Err: err}
	if step == "clusters advertise what they have" {
		f.Object, f.Log = "ClusterAdvertisements in the broker cluster", s.Broker.Log
	}
	return f
}

// advertise removes what an interrupted run has left, waits until the broker knows every member, and shows the
// members' resources.
func (s *story) advertise(ctx context.Context) error {
	if err := s.cleanUp(ctx); err != nil {
		return err
	}
	if err := s.AwaitAdvertised(ctx, time.Minute); err != nil {
		return err
	}
	rows, err := s.showOffers(ctx)
	if err != nil {
		return err
	}
	s.before, err = s.Available(ctx)
	s.Say("kubectl get clusteradvertisements, in the broker's cluster:")
	s.Table(rows...)
	return err
}

// ask creates the first request, and shows the decision of the broker.
func (s *story) ask(ctx context.Context) error {
	if err := s.EnsureNamespace(ctx, s.rome(), storyNamespace); err != nil {
		return err
	}
	s.Say("kubectl apply -f config/samples/agent_v1alpha1_resourcerequest.yaml")
	var err error
	s.asked = time.Now()
	if s.request, err = s.rome().Ask(ctx, storyNamespace, s.samples.Request); err != nil {
		return err
	}
	if err := s.rome().AwaitPhase(ctx, s.request, 20*time.Second, agentv1alpha1.RequestReserved, agentv1alpha1.RequestActive); err != nil {
		return err
	}
	st := s.request.Status
	s.Say("%s: %s on %s is locked for rome", st.ReservationName, amountsOf(s.request), st.TargetClusterID)
	s.Say("how the broker chose:")
	s.Table(candidateRows(st.Candidates)...)
	return s.showLock(ctx, st.TargetClusterID)
}

// showLock waits until the provider's unreserved capacity has changed, and prints the available capacity before and
// now.
func (s *story) showLock(ctx context.Context, provider string) error {
	now := map[string]Capacity{}
	err := Await(ctx, 10*time.Second, func(ctx context.Context) (string, error) {
		var err error
		if now, err = s.Available(ctx); err != nil || now[provider].Unreserved != s.before[provider].Unreserved {
			return "", err
		}
		return fmt.Sprintf("ClusterAdvertisement %q to show less than %s", provider, s.before[provider].Unreserved), nil
	})
	if err != nil {
		return err
	}
	s.Say("available on %s: %s before, %s now", provider, words(s.before[provider].Available), words(now[provider].Available))
	return nil
}

// peer waits until the virtual node is Ready.
func (s *story) peer(ctx context.Context) error {
	err := s.rome().AwaitCondition(ctx, s.request, time.Minute, agentv1alpha1.ConditionReady, func(message string) {
		s.Say("%s", message)
	})
	if err != nil {
		return err
	}
	s.figures.NodeReady = time.Since(s.asked)
	rows, err := s.rome().nodeRows(ctx)
	if err != nil {
		return err
	}
	s.Say("kubectl get nodes, in rome:")
	s.Table(rows...)
	return nil
}

// run deploys pods that run only on the virtual node of the reservation.
func (s *story) run(ctx context.Context) error {
	if err := s.rome().Deploy(ctx, storyNamespace, s.samples.Deployment, OnReservation(s.request.Status.ReservationName)); err != nil {
		return err
	}
	pods, err := s.rome().AwaitPods(ctx, storyNamespace, 2, s.request.Status.NodeName, time.Minute)
	if err != nil {
		return err
	}
	s.figures.PodRunning = time.Since(s.asked)
	s.Say("kubectl get pods -n %s, in rome:", storyNamespace)
	s.Table(podRows(pods)...)
	twins, err := s.Twins(ctx, s.request.Status.TargetClusterID, pods)
	if err != nil {
		return err
	}
	s.Say("their copies in %s:", s.request.Status.TargetClusterID)
	s.Table(podRows(twins)...)
	return nil
}

func (s *story) askForGPU(ctx context.Context) error {
	s.Say("kubectl apply -f config/samples/agent_v1alpha1_resourcerequest_gpu.yaml")
	var err error
	if s.gpu, err = s.rome().Ask(ctx, storyNamespace, s.samples.GPURequest); err != nil {
		return err
	}
	if err := s.rome().AwaitCondition(ctx, s.gpu, time.Minute, agentv1alpha1.ConditionReady, nil); err != nil {
		return err
	}
	s.Say("%s is Ready on %s", s.gpu.Status.NodeName, s.gpu.Status.TargetClusterID)
	s.Table(candidateRows(s.gpu.Status.Candidates)...)
	return nil
}

func (s *story) askTooMuch(ctx context.Context) error {
	s.Say("kubectl apply -f config/samples/agent_v1alpha1_resourcerequest_toolarge.yaml")
	large, err := s.rome().Ask(ctx, storyNamespace, s.samples.LargeRequest)
	if err != nil {
		return err
	}
	if err := s.rome().AwaitPhase(ctx, large, 20*time.Second, agentv1alpha1.RequestFailed); err != nil {
		return err
	}
	s.Say("refused, with these reasons:")
	s.Table(candidateRows(large.Status.Candidates)...)
	return s.rome().DeleteAndWait(ctx, large, 20*time.Second)
}

// cleanUp removes what an earlier run has left.
func (s *story) cleanUp(ctx context.Context) error {
	if err := s.rome().DeleteDeployments(ctx, storyNamespace); err != nil {
		return err
	}
	list := &agentv1alpha1.ResourceRequestList{}
	if err := s.rome().List(ctx, list, client.InNamespace(storyNamespace)); err != nil {
		return err
	}
	if len(list.Items) == 0 {
		return nil
	}
	s.Say("an earlier run left %d ResourceRequests: they are released first", len(list.Items))
	if err := s.rome().DeleteAllOf(ctx, &agentv1alpha1.ResourceRequest{}, client.InNamespace(storyNamespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if err := s.rome().AwaitGone(ctx, &list.Items[i], 90*time.Second); err != nil {
			return err
		}
	}
	return s.AwaitClean(ctx, time.Minute)
}

// giveBack deletes the requests, and waits until all clusters are as they were before the story.
func (s *story) giveBack(ctx context.Context) error {
	s.Say("kubectl delete resourcerequests --all")
	if err := s.rome().DeleteDeployments(ctx, storyNamespace); err != nil {
		return err
	}
	if err := s.rome().DeleteAllOf(ctx, &agentv1alpha1.ResourceRequest{}, client.InNamespace(storyNamespace)); err != nil {
		return err
	}
	for _, r := range []*agentv1alpha1.ResourceRequest{s.request, s.gpu} {
		if err := s.rome().AwaitGone(ctx, r, 90*time.Second); err != nil {
			return err
		}
		s.Say("%s and its virtual node are gone", r.Name)
	}
	if err := s.AwaitAvailable(ctx, s.before, 30*time.Second); err != nil {
		return err
	}
	if err := s.AwaitClean(ctx, 60*time.Second); err != nil {
		return err
	}
	rows, err := s.showOffers(ctx)
	s.Say("all capacity is available again, and no cluster has anything left:")
	s.Table(rows...)
	return err
}
