package attacks

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// hostile acts as the agent of a provider, with the certificate of the real agent, which is
// stopped.
type hostile struct {
	env       *local.Environment
	broker    transport.Transport
	cert      *pki.Files
	placement string
	// gone is the status report of a provider that has removed the placement.
	gone        *v1.StatusReport
	reservation string
	request     *agentv1alpha1.ResourceRequest
}

// playProvider stops the provider's agent, makes rome reserve capacity at that provider, and
// accepts the reservation.
func playProvider(t *testing.T) *hostile {
	t.Helper()
	env := stage.Keep(t)
	shared = nil
	stage.Clear(t)
	h := &hostile{env: env}
	var err error
	h.cert, err = env.Certificate(provider)
	check(t, err)
	agent := env.Product.Process(provider)
	agent.Kill()
	t.Cleanup(func() { h.restoreAgent(t) })
	h.broker, err = env.Transport(provider)
	check(t, err)
	t.Cleanup(func() { check(t, h.broker.Close()) })
	h.reserve(t)
	return h
}

// reserve makes rome reserve capacity at the hostile provider, and accepts the reservation.
func (h *hostile) reserve(t *testing.T) {
	t.Helper()
	h.advertise(t)
	var err error
	h.request, err = h.env.Member("rome").Request(t.Context(), namespace, "honest", grant(), at(provider))
	check(t, err)
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		list, err := h.broker.FetchInstructions(ctx, "", 0)
		if err != nil {
			return "", err
		}
		for _, in := range list.Instructions {
			if in.ConsumerID == "rome" && in.ProviderID == provider && in.State == v1.InstructionStateHold {
				h.placement, h.reservation = fmt.Sprintf("%s-%d", in.Reservation, in.Placement), in.Reservation
				h.gone = &v1.StatusReport{Placement: in.Placement, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateGone}
				return "", h.broker.ReportStatus(ctx, in.Reservation, &v1.StatusReport{
					Placement: in.Placement, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateAcknowledged,
				})
			}
		}
		return "an instruction of rome's", nil
	}))
}

// advertise repeats what the provider's agent advertised last, because the broker grants nothing on a cluster that has
// stopped advertising.
func (h *hostile) advertise(t *testing.T) {
	t.Helper()
	adv := &agentv1alpha1.Advertisement{}
	check(t, h.env.Member(provider).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "cluster-advertisement"}, adv))
	_, err := h.broker.PublishAdvertisement(t.Context(), wire.FromAdvertisement(&adv.Spec))
	check(t, err)
}

// refusedWithin is less than the two minutes after which the broker gives up any placement whose
// node is not Ready, so a placement that ends earlier was refused.
const refusedWithin = time.Minute

// awaitGivenUp waits until rome has given up the placement, then reports it gone so that the broker
// frees the reservation. The broker accepts no such report earlier.
func (h *hostile) awaitGivenUp(t *testing.T) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, h.giveUp))
}

func (h *hostile) giveUp(ctx context.Context) (waitingFor string, _ error) {
	if err := h.broker.ReportStatus(ctx, h.reservation, h.gone); err != nil {
		return "rome to give " + h.placement + " up: " + err.Error(), nil
	}
	return "", nil
}

// awaitRefused waits until rome has given up the placement because of the provider's message. It
// fails the test if used describes a use of the message before.
func (h *hostile) awaitRefused(t *testing.T, used func(ctx context.Context) string) {
	t.Helper()
	check(t, e2e.Await(t.Context(), refusedWithin, func(ctx context.Context) (string, error) {
		waitingFor, err := h.giveUp(ctx)
		if use := used(ctx); use != "" {
			t.Error(use)
			return "", nil
		}
		return waitingFor, err
	}))
}

// reserveAgain makes a new reservation after rome has refused a message: the refusal ends the
// placement.
func (h *hostile) reserveAgain(t *testing.T) {
	t.Helper()
	rome := h.env.Member("rome")
	check(t, rome.Delete(t.Context(), h.request))
	h.awaitGivenUp(t)
	check(t, rome.DeleteAndWait(t.Context(), h.request, patience))
	h.reserve(t)
}

func (h *hostile) restoreAgent(t *testing.T) {
	t.Helper()
	if agent := h.env.Product.Process(provider); !agent.Alive() {
		check(t, agent.Start())
	}
}

// leave restarts the provider's own agent. Once rome has given up its reservation, the peering must
// leave nothing behind, and honest workloads must run at the provider again.
func (h *hostile) leave(t *testing.T) {
	t.Helper()
	h.restoreAgent(t)
	check(t, h.env.Member("rome").DeleteAndWait(t.Context(), h.request, patience))
	stage.Clear(t)
	s := openWith(t, h.env, provider, "rome", "berlin")
	s.verify(t)
	shared = s
}

// send sends rome a signed handshake message.
func (h *hostile) send(ctx context.Context, step handshake.Step, epoch, previous string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(handshake.Message{
		Consumer: "rome", Provider: provider, Placement: h.placement, Epoch: epoch, Step: step, PreviousDigest: previous, Body: raw,
	})
	if err != nil {
		return err
	}
	current, err := h.cert.Current()
	if err != nil {
		return err
	}
	envelope, err := pki.Sign(payload, current.Certificate)
	if err != nil {
		return err
	}
	return h.broker.SendMessage(ctx, &v1.Message{To: "rome", Slot: fmt.Sprintf("peering/rome/%s/%d", provider, step), Body: envelope})
}

// answer waits for rome's answer to the challenge of an epoch. It returns the message and its
// digest, or an error if there is none in time.
func (h *hostile) answer(ctx context.Context, epoch string, within time.Duration) (answer handshake.Answer, digest string, err error) {
	err = e2e.Await(ctx, within, func(ctx context.Context) (string, error) {
		list, err := h.broker.ReceiveMessages(ctx, "", 0)
		if err != nil {
			return "", err
		}
		for _, m := range list.Messages {
			var envelope struct{ Payload []byte }
			var message handshake.Message
			if json.Unmarshal(m.Body, &envelope) != nil || json.Unmarshal(envelope.Payload, &message) != nil {
				continue
			}
			if message.Step == handshake.StepAnswer && message.Epoch == epoch {
				sum := sha256.Sum256(envelope.Payload)
				digest = hex.EncodeToString(sum[:])
				return "", json.Unmarshal(message.Body, &answer)
			}
		}
		return "rome's answer", nil
	})
	return answer, digest, err
}

// nonce returns a nonce in Liqo's format.
func nonce(t *testing.T) []byte {
	t.Helper()
	raw := make([]byte, 64)
	_, err := rand.Read(raw)
	check(t, err)
	return []byte(base64.StdEncoding.EncodeToString(raw))
}

// TestAgentsSignNothingButNonces checks what a consumer's agent signs with the key that the
// consumer also uses at other providers. It must sign only data with the form of Liqo's nonces.
func TestAgentsSignNothingButNonces(t *testing.T) {
	h := playProvider(t)
	transcript := sha256.Sum256([]byte("a TLS handshake"))
	key, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "rome"}}, newKey(t))
	check(t, err)
	for name, bytes := range map[string][]byte{
		"a promise":                        []byte("I, rome, owe the holder of this a thousand cores"),
		"the CertificateVerify of TLS 1.3": append([]byte(strings.Repeat(" ", 64)+"TLS 1.3, client CertificateVerify\x00"), transcript[:]...),
		"a certificate request":            key,
		"a token":                          []byte("eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJyb21lIn0"),
		"nothing":                          {},
		"a nonce with one byte more":       append(nonce(t), '\n'),
		"64 bytes that are not encoded":    transcriptOf(64),
		"a nonce in the alphabet of URLs":  []byte(strings.Repeat("_-", 43) + "=="),
	} {
		t.Run(name, func(t *testing.T) {
			epoch := newEpoch(t)
			check(t, h.send(t.Context(), handshake.StepChallenge, epoch, "", handshake.Challenge{TenantNamespace: "liqo-tenant-rome", Nonce: bytes}))
			h.awaitRefused(t, func(ctx context.Context) string {
				if _, _, err := h.answer(ctx, epoch, e2e.Once); err == nil {
					return "rome signed it"
				}
				return ""
			})
			h.reserveAgain(t)
		})
	}
	t.Run("a nonce is signed, so that this test could fail", func(t *testing.T) {
		epoch := newEpoch(t)
		check(t, h.send(t.Context(), handshake.StepChallenge, epoch, "", handshake.Challenge{TenantNamespace: "liqo-tenant-rome", Nonce: nonce(t)}))
		_, _, err := h.answer(t.Context(), epoch, patience)
		check(t, err)
	})
	h.leave(t)
}

func transcriptOf(n int) []byte { return []byte(strings.Repeat("\x00", n)) }

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	return key
}

// TestCredentialsThatLeadElsewhereAreRefused has a provider answer with credentials that direct the
// consumer's Liqo to another server.
func TestCredentialsThatLeadElsewhereAreRefused(t *testing.T) {
	h := playProvider(t)
	env := h.env
	// offer completes a handshake with credentials for rome's key.
	offer := func(t *testing.T, credentials handshake.Credentials) {
		t.Helper()
		epoch := newEpoch(t)
		check(t, h.send(t.Context(), handshake.StepChallenge, epoch, "", handshake.Challenge{TenantNamespace: "liqo-tenant-rome", Nonce: nonce(t)}))
		answer, digest, err := h.answer(t.Context(), epoch, patience)
		check(t, err)
		credentials.TenantNamespace, credentials.SignedCRT = "liqo-tenant-rome", selfSigned(t, answer)
		check(t, h.send(t.Context(), handshake.StepCredentials, epoch, digest, credentials))
	}
	proxy, own := "http://127.0.0.1:39081", env.Playground.Clusters[provider].URL()
	for name, credentials := range map[string]handshake.Credentials{
		"the metadata service":            {APIServer: "https://169.254.169.254:443"},
		"loopback":                        {APIServer: "https://127.0.0.1:1"},
		"the consumer's own API server":   {APIServer: env.Playground.Clusters["rome"].URL()},
		"another cluster's API server":    {APIServer: env.Playground.Clusters["berlin"].URL()},
		"its own through a proxy":         {APIServer: own, ProxyURL: &proxy},
		"an address that is no https":     {APIServer: "http://10.0.0.1"},
		"an address with a user and path": {APIServer: strings.Replace(own, "https://", "https://user:secret@", 1) + "/api"},
	} {
		t.Run(name, func(t *testing.T) {
			offer(t, credentials)
			h.awaitRefused(t, h.identity)
			h.reserveAgain(t)
		})
	}
	t.Run("those that lead to the advertised API server are taken, so that this test could fail", func(t *testing.T) {
		offer(t, handshake.Credentials{APIServer: own})
		identity := e2e.Object(e2e.IdentityKind, e2e.TenantNamespace(provider), object.IdentityName(provider))
		check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
			return "", env.Member("rome").Get(ctx, client.ObjectKeyFromObject(identity), identity)
		}))
	})
	h.leave(t)
}

// newEpoch returns an unused name for a handshake. The broker keeps the last message of each step,
// and tests share the broker.
func newEpoch(t *testing.T) string {
	t.Helper()
	raw := make([]byte, 16)
	_, err := rand.Read(raw)
	check(t, err)
	return hex.EncodeToString(raw)
}

// selfSigned returns a certificate for the key that signed the answer, issued by a CA of the
// provider.
func selfSigned(t *testing.T, answer handshake.Answer) []byte {
	t.Helper()
	block, _ := pem.Decode(answer.CSR)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: csr.Subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "hostile"}}, csr.PublicKey, newKey(t))
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// identity describes the credentials of the hostile provider that rome's Liqo has, and deletes
// them. It returns "" if there are none.
func (h *hostile) identity(ctx context.Context) string {
	identity := e2e.Object(e2e.IdentityKind, e2e.TenantNamespace(provider), object.IdentityName(provider))
	rome := h.env.Member("rome")
	if rome.Get(ctx, client.ObjectKeyFromObject(identity), identity) != nil {
		return ""
	}
	server, _, _ := unstructured.NestedString(identity.Object, "spec", "authParams", "apiServer")
	return fmt.Sprintf("rome's Liqo was given the API server %q: deleting it: %v", server, rome.Delete(ctx, identity))
}

// TestAnnouncementsOfInventedPlacementsChangeNothing has a member announce placements that were
// never granted, in the names of other members.
func TestAnnouncementsOfInventedPlacementsChangeNothing(t *testing.T) {
	env := open(t).env
	before, err := env.Available(t.Context())
	check(t, err)
	members := []string{"rome", "paris", "nobody"}
	held := reservationsOf(t, env, members)
	broker, err := env.Transport("berlin")
	check(t, err)
	t.Cleanup(func() { check(t, broker.Close()) })
	for round := range 3 {
		holdings := &v1.Holdings{Consumes: []v1.ConsumedReservation{}}
		for i := range 500 {
			holdings.Provides = append(holdings.Provides, v1.ProvidedPlacement{
				Reservation: fmt.Sprintf("res-%05d%05d", round, i), Placement: 1, ConsumerID: members[i%len(members)],
				Acknowledged: true, Resources: v1.Amounts{"cpu": "1"},
			})
		}
		if err := broker.AnnounceHoldings(t.Context(), holdings); err != nil {
			t.Logf("refused: %v", err)
		}
	}
	if diff := cmp.Diff(held, reservationsOf(t, env, members)); diff != "" {
		t.Errorf("reservations (-before +after):\n%s", diff)
	}
	check(t, env.AwaitAvailable(t.Context(), before, patience))
}

// reservationsOf lists the names of the reservations held for the given clusters.
func reservationsOf(t *testing.T, env *local.Environment, members []string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, id := range members {
		held, err := env.Held(t.Context(), id)
		check(t, err)
		all[id] = held
	}
	return all
}
