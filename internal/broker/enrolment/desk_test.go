package enrolment

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"sync"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const namespace = "broker"

// longWait is the IssueWait for an issuer that answers, shortWait for one that never does.
const (
	longWait  = time.Minute
	shortWait = 50 * time.Millisecond
)

// signer answers a CertificateRequest once the Enroller watches it. A nil signer never answers.
type signer func(d *desk, request *cmapi.CertificateRequest)

// desk is an Enroller with an API server in memory.
type desk struct {
	*Enroller
	client.WithWatch
	t               *testing.T
	clock           *clocktesting.FakeClock
	servers, agents *pkitest.Authority
	recorder        *events.FakeRecorder
	log             *bytes.Buffer
	// mu guards the fields below.
	mu     sync.Mutex
	signer signer
	// made lists the names of CertificateRequests in order of creation.
	made []string
	// beforeUpdate runs once before the next update of a ConfigMap.
	beforeUpdate func()
}

func newDesk(t *testing.T, sign signer, objects ...client.Object) *desk {
	t.Helper()
	d := &desk{t: t, signer: sign, clock: clocktesting.NewFakeClock(noon), recorder: events.NewFakeRecorder(100), log: &bytes.Buffer{}}
	scheme := runtime.NewScheme()
	d.agents, d.servers = d.authority(), d.authority()
	d.check(errors.Join(corev1.AddToScheme(scheme), brokerv1alpha1.AddToScheme(scheme), cmapi.AddToScheme(scheme)))
	d.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&brokerv1alpha1.BrokerConfig{}, &cmapi.CertificateRequest{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: d.create, Update: d.update, Watch: d.watch}).Build()
	dir := t.TempDir()
	pair, err := d.servers.IssueServer([]string{"broker"}, nil)
	d.check(err)
	d.check(pkitest.Save(dir, pair, d.servers.CertPEM(), d.agents.CertPEM()))
	files, err := pki.OpenFiles(dir, d.clock.Now)
	d.check(err)
	gate := access.NewGate()
	gate.Set(access.Policy{})
	d.Enroller, err = New(Options{
		Client: d, Namespace: namespace, Issuer: cmmeta.IssuerReference{Name: "agents", Kind: "Issuer", Group: "cert-manager.io"},
		TrustDomain: trustDomain, Duration: 24 * time.Hour, BrokerURLs: []string{"https://broker:8443"},
		EnrolmentURL: "https://broker:8444", Listens: true, Files: files, Access: gate, Recorder: d.recorder, Clock: d.clock,
		Log: funcr.New(func(_, args string) { d.log.WriteString(args + "\n") }, funcr.Options{Verbosity: 9}), IssueWait: longWait,
	})
	d.check(err)
	if sign == nil {
		d.IssueWait = shortWait
	}
	return d
}

func (d *desk) check(err error) {
	d.t.Helper()
	runtest.Check(d.t, err)
}

func (d *desk) authority() *pkitest.Authority {
	d.t.Helper()
	return pkitest.New(d.t, "test", noon)
}

func (d *desk) create(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
	obj.SetCreationTimestamp(metav1.NewTime(d.clock.Now()))
	err := c.Create(ctx, obj, opts...)
	if _, is := obj.(*cmapi.CertificateRequest); is && err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.made = append(d.made, obj.GetName())
	}
	return err
}

func (d *desk) update(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
	d.mu.Lock()
	before := d.beforeUpdate
	d.beforeUpdate = nil
	d.mu.Unlock()
	if before != nil {
		before()
	}
	return c.Update(ctx, obj, opts...)
}

// watch opens a watch and then lets the signer answer all requests: a fake watch reports only
// changes made after it was opened.
func (d *desk) watch(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	w, err := c.Watch(ctx, list, client.InNamespace(namespace))
	if err != nil || d.signer == nil {
		return w, err
	}
	var requests cmapi.CertificateRequestList
	d.check(c.List(ctx, &requests))
	for i := range requests.Items {
		d.signer(d, &requests.Items[i])
	}
	return w, nil
}

// signs returns a signer that issues certificates like the chart's issuer, changed by edits.
func signs(edits ...func(*x509.Certificate)) signer {
	return func(d *desk, request *cmapi.CertificateRequest) {
		block, _ := pem.Decode(request.Spec.Request)
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		d.check(err)
		template := &x509.Certificate{
			Subject: pkix.Name{CommonName: csr.Subject.CommonName}, URIs: csr.URIs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		for _, edit := range edits {
			edit(template)
		}
		certificate, err := d.agents.Certify(csr.PublicKey, template)
		d.check(err)
		d.end(request, certificate, cmapi.CertificateRequestConditionReady, cmmeta.ConditionTrue, cmapi.CertificateRequestReasonIssued)
	}
}

// refuses returns a signer that issues no certificate, and ends the request with a condition.
func refuses(kind cmapi.CertificateRequestConditionType, status cmmeta.ConditionStatus, reason string) signer {
	return func(d *desk, request *cmapi.CertificateRequest) { d.end(request, nil, kind, status, reason) }
}

// end writes the certificate and the condition with which a request ends.
func (d *desk) end(request *cmapi.CertificateRequest, certificate []byte, kind cmapi.CertificateRequestConditionType, status cmmeta.ConditionStatus, reason string) {
	request.Status.Certificate = certificate
	request.Status.Conditions = []cmapi.CertificateRequestCondition{{Type: kind, Status: status, Reason: reason, Message: "so it is"}}
	d.check(d.Status().Update(d.t.Context(), request))
}

func (d *desk) token(clusterID string) string {
	d.t.Helper()
	made, err := MakeToken(d.t.Context(), d, namespace, clusterID, d.clock.Now())
	d.check(err)
	return made.Text
}

func (d *desk) enrolCluster(csr, token string) (*v1.IssuedCertificate, *v1.EnrolmentPending, error) {
	return d.Enrol(d.t.Context(), &v1.EnrolmentRequest{ClusterID: "rome", Csr: csr, Token: token})
}

// requests returns the CertificateRequests that exist.
func (d *desk) requests() []cmapi.CertificateRequest {
	d.t.Helper()
	var list cmapi.CertificateRequestList
	d.check(d.List(d.t.Context(), &list))
	return list.Items
}

func (d *desk) allow(spec brokerv1alpha1.BrokerConfigSpec) { d.Access.Set(access.PolicyOf(&spec)) }
