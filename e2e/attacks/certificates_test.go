package attacks

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
)

// liqoKey reads the private key with which a cluster's Liqo authenticates.
func liqoKey(t testing.TB, home *e2e.Cluster) crypto.Signer {
	t.Helper()
	secret := &corev1.Secret{}
	check(t, home.Get(context.Background(), client.ObjectKey{Namespace: "liqo", Name: "authentication-keys"}, secret))
	block, _ := pem.Decode(secret.Data["privateKey"])
	if block == nil {
		t.Fatalf("no private key of Liqo in %s", home.Name)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	check(t, err)
	return key.(crypto.Signer)
}

// userOf returns the user name in the certificate of a consumer's slice.
func userOf(slice, consumer string) string {
	sum := sha256.Sum256([]byte(consumer))
	return fmt.Sprintf("%s-%x", slice, sum[:6])
}

// request creates a certificate request in the encoding of spec.csr.
func request(t testing.TB, key crypto.Signer, template x509.CertificateRequest) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	check(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// subjects returns certificate requests that Liqo would sign although they ask for more than the
// identity of the slice, or for another identity.
func subjects(t testing.TB, key crypto.Signer, slice string) map[string]string {
	t.Helper()
	name := userOf(slice, "rome")
	_, other, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	plain := pkix.Name{CommonName: name, Organization: []string{"rome"}}
	of := func(organisations ...string) x509.CertificateRequest {
		return x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: organisations}}
	}
	return map[string]string{
		"the group of another consumer":        request(t, key, of("rome", "berlin")),
		"the administrators of kubeadm":        request(t, key, of("rome", "kubeadm:cluster-admins")),
		"the masters":                          request(t, key, of("rome", "system:masters")),
		"a control plane":                      request(t, key, of("rome", "liqo.io")),
		"the nodes":                            request(t, key, of("rome", "system:nodes")),
		"the accounts of kube-system":          request(t, key, of("rome", "system:serviceaccounts:kube-system")),
		"its own group twice":                  request(t, key, of("rome", "rome")),
		"no group, which Liqo does not expect": request(t, key, of()),
		"an organisational unit":               request(t, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: []string{"rome"}, OrganizationalUnit: []string{"x"}}}),
		"a DNS name":                           request(t, key, x509.CertificateRequest{Subject: plain, DNSNames: []string{"kubernetes.default.svc"}}),
		"an extension":                         request(t, key, x509.CertificateRequest{Subject: plain, ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}}),
		"the name of another slice":            request(t, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: userOf("res-other00000-1", "rome"), Organization: []string{"rome"}}}),
		"the control plane's own name":         request(t, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: "rome", Organization: []string{"liqo.io"}}}),
		"another key":                          request(t, other, x509.CertificateRequest{Subject: plain}),
		"no request at all":                    base64.StdEncoding.EncodeToString([]byte("no certificate request")),
		"a request with something behind it":   appended(request(t, key, of("rome")), request(t, key, of("rome", "berlin"))),
	}
}

func appended(a, b string) string {
	first, _ := base64.StdEncoding.DecodeString(a)
	second, _ := base64.StdEncoding.DecodeString(b)
	return base64.StdEncoding.EncodeToString(append(first, second...))
}

// TestCertificatesForOtherGroupsAreNotSigned has a consumer's control plane request certificates
// for groups other than its own. rome's replicator is paused meanwhile, as a hostile operator would
// do.
func TestCertificatesForOtherGroupsAreNotSigned(t *testing.T) {
	s := open(t)
	resume := s.pause(t, "rome", replicator)
	key, rome := liqoKey(t, s.attacker.home), s.attacker
	secret := &corev1.Secret{ObjectMeta: named(s.neighbour.landing, "treasure"), StringData: map[string]string{"password": "hunter2"}}
	check(t, s.provider.Create(t.Context(), secret))
	t.Cleanup(func() { check(t, s.provider.Delete(context.Background(), secret)) })

	const forged = "res-forged0000-1"
	for what, csr := range subjects(t, key, forged) {
		t.Run("a slice without a reservation, for "+what, func(t *testing.T) {
			slice := rome.forge(t, forged, func(spec map[string]any) { spec["csr"] = csr })
			err := rome.plane.Create(t.Context(), slice)
			refused(t, err)
			if err == nil {
				s.unsigned(t, slice)
				check(t, s.provider.DeleteAndWait(t.Context(), slice, patience))
			}
		})
	}
	changes := subjects(t, key, rome.slice)
	delete(changes, "another key") // Liqo signs only for the key of the Tenant
	for what, csr := range changes {
		t.Run("its own slice, changed to ask for "+what, func(t *testing.T) {
			refused(t, rome.plane.Patch(t.Context(), e2e.Object(e2e.SliceKind, rome.office, rome.slice), merge(`{"spec":{"csr":"`+csr+`"}}`)))
		})
	}
	t.Run("its own slice, deleted and made anew with more groups", func(t *testing.T) {
		fresh := rome.forge(t, rome.slice, func(spec map[string]any) { spec["csr"] = subjects(t, key, rome.slice)["the group of another consumer"] })
		if err := rome.plane.DeleteAndWait(t.Context(), e2e.Object(e2e.SliceKind, rome.office, rome.slice), patience); err != nil {
			refused(t, err)
			return
		}
		err := rome.plane.Create(t.Context(), fresh)
		refused(t, err)
		if err == nil {
			s.unsigned(t, fresh)
		}
	})
	resume()
	s.awaitIdentities(t, rome)
	s.onlyExpectedSubjects(t)
}

// unsigned fails the test if the provider signs a certificate for a slice that it admitted.
func (s *scene) unsigned(t *testing.T, slice *unstructured.Unstructured) {
	t.Helper()
	err := e2e.Await(t.Context(), 5*time.Second, func(ctx context.Context) (string, error) {
		if err := s.provider.Get(ctx, client.ObjectKeyFromObject(slice), slice); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		if signed, _, _ := unstructured.NestedString(slice.Object, "status", "authParams", "signedCRT"); signed != "" {
			return "", nil
		}
		return "a certificate", nil
	})
	if err == nil {
		t.Error("the provider signed a certificate for it")
	}
}

// onlyExpectedSubjects fails the test if a certificate that Liqo had signed for a peer has more or
// less than one organisation, or any alternative name.
func (s *scene) onlyExpectedSubjects(t *testing.T) {
	t.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	check(t, s.provider.List(t.Context(), list))
	for i := range list.Items {
		csr := &list.Items[i]
		block, _ := pem.Decode(csr.Status.Certificate)
		if block == nil || csr.Labels["liqo.io/remote-tenant-csr"] == "" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		check(t, err)
		if len(cert.Subject.Organization) != 1 || len(cert.DNSNames)+len(cert.IPAddresses)+len(cert.EmailAddresses)+len(cert.URIs) > 0 {
			t.Errorf("a certificate was signed for %s", cert.Subject)
		}
	}
}

// TestRenewalsOfOthersAreNotSigned has a consumer's control plane request renewals in the name of
// others, or with changed certificate requests.
func TestRenewalsOfOthersAreNotSigned(t *testing.T) {
	s := open(t)
	s.pause(t, "rome", replicator)
	key, rome := liqoKey(t, s.attacker.home), s.attacker
	labels := rome.ownSlice(t).GetLabels()
	for name, spec := range map[string]map[string]any{
		"the control plane of another consumer": {"consumerClusterID": "berlin", "identityType": "ControlPlane"},
		"a request with another group": {"consumerClusterID": "rome", "identityType": "ControlPlane",
			"csr": request(t, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: "rome", Organization: []string{"liqo.io", "berlin"}}})},
		"another consumer's slice": {"consumerClusterID": "rome", "identityType": "ResourceSlice", "resourceSliceRef": map[string]any{"name": s.neighbour.slice}},
	} {
		t.Run(name, func(t *testing.T) {
			renew := e2e.Object(e2e.RenewKind, rome.office, "stolen")
			renew.SetLabels(labels)
			renew.Object["spec"] = spec
			err := rome.plane.Create(t.Context(), renew)
			if err != nil {
				refused(t, err)
				return
			}
			t.Cleanup(func() { check(t, s.provider.DeleteAndWait(context.Background(), renew, patience)) })
			s.notOfAnother(t, renew)
		})
	}
	s.onlyExpectedSubjects(t)
}

// notOfAnother fails the test if a Renew is answered with a certificate other than that of rome's
// control plane.
func (s *scene) notOfAnother(t *testing.T, renew *unstructured.Unstructured) {
	t.Helper()
	_ = e2e.Await(t.Context(), 3*time.Second, func(ctx context.Context) (string, error) {
		check(t, s.provider.Get(ctx, client.ObjectKeyFromObject(renew), renew))
		signed, _, _ := unstructured.NestedString(renew.Object, "status", "authParams", "signedCRT")
		raw, err := base64.StdEncoding.DecodeString(signed)
		check(t, err)
		block, _ := pem.Decode(raw)
		if block == nil {
			return "a certificate", nil
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		check(t, err)
		if cert.Subject.CommonName != "rome" || len(cert.Subject.Organization) != 1 {
			t.Errorf("a certificate was signed for %s", cert.Subject)
		}
		return "", nil
	})
}

// TestOtherTenantsAreNotReadable checks that a consumer can read only its own objects at the
// provider.
func TestOtherTenantsAreNotReadable(t *testing.T) {
	s := open(t)
	rome, berlin := s.attacker, s.neighbour
	secret := &corev1.Secret{ObjectMeta: named(berlin.landing, "treasure"), StringData: map[string]string{"password": "hunter2"}}
	check(t, s.provider.Create(t.Context(), secret))
	t.Cleanup(func() { check(t, s.provider.Delete(context.Background(), secret)) })
	attacks := map[string]attack{}
	for who, c := range map[string]*e2e.Cluster{"the slice": rome.kubelet, "the control plane": rome.plane} {
		for what, list := range map[string]client.ObjectList{
			"Secrets": &corev1.SecretList{}, "ConfigMaps": &corev1.ConfigMapList{}, "Pods": &corev1.PodList{}, "Services": &corev1.ServiceList{},
		} {
			for where, ns := range map[string]string{"of another consumer": berlin.landing, "of the system": "kube-system", "of Liqo": "liqo", "of all": ""} {
				attacks[fmt.Sprintf("%s reads %s %s", who, what, where)] = func(ctx context.Context) error {
					return c.List(ctx, list.DeepCopyObject().(client.ObjectList), client.InNamespace(ns))
				}
			}
		}
		attacks[who+" reads one Secret of another consumer"] = func(ctx context.Context) error {
			return c.Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{})
		}
		attacks[who+" writes into another consumer's namespace"] = func(ctx context.Context) error {
			return c.Create(ctx, e2etest.Note(berlin.landing, "stolen"))
		}
		attacks[who+" asks for a certificate of its own"] = func(ctx context.Context) error {
			return c.Create(ctx, &certificatesv1.CertificateSigningRequest{ObjectMeta: named("", "stolen"), Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: []byte("x"), SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			}})
		}
	}
	attacks["the control plane reads Secrets of its own tenant namespace"] = func(ctx context.Context) error {
		return rome.plane.List(ctx, &corev1.SecretList{}, client.InNamespace(rome.office))
	}
	refuseAll(t, attacks)
	t.Run("impersonating another consumer", func(t *testing.T) {
		config := *rome.plane.Config
		config.Impersonate.UserName, config.Impersonate.Groups = "berlin", []string{"liqo.io"}
		as, err := client.New(&config, client.Options{})
		if err == nil {
			err = as.List(t.Context(), &corev1.SecretList{}, client.InNamespace(berlin.office))
		}
		if !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want it forbidden", err)
		}
	})
}

// TestEndedIdentitiesReadNothingWhileASiblingLives checks the still valid certificate of an ended
// slice. It must not even grant reading while a sibling of the slice exists in the same namespace.
func TestEndedIdentitiesReadNothingWhileASiblingLives(t *testing.T) {
	s := open(t)
	second, err := s.attacker.home.Request(t.Context(), namespace, "ends", grant(), at(provider))
	check(t, err)
	check(t, s.attacker.home.AwaitReady(t.Context(), second, patience))
	ended, err := s.env.SliceIdentity(t.Context(), "rome", provider, second.Status.NodeName)
	check(t, err)
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		return "", ended.List(ctx, &corev1.SecretList{}, client.InNamespace(s.attacker.landing))
	}))
	reads := readingAttacks(ended, s.attacker.landing)
	for what, try := range reads {
		if err := try(t.Context()); apierrors.IsForbidden(err) {
			t.Errorf("the identity may not %s while its reservation lives: %v", what, err)
		}
	}
	attacks := map[string]attack{
		"write": func(ctx context.Context) error { return ended.Create(ctx, e2etest.Note(s.attacker.landing, "stolen")) },
		"create a pod": func(ctx context.Context) error {
			return ended.Create(ctx, e2etest.ShadowPod("rome", second.Status.NodeName, s.attacker.landing, "stolen"))
		},
	}
	maps.Copy(attacks, reads)
	check(t, s.attacker.home.DeleteAndWait(t.Context(), second, patience))
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		for what, try := range attacks {
			if err := try(ctx); !apierrors.IsForbidden(err) {
				return fmt.Sprintf("the ended identity not to %s, it got: %v", what, err), nil
			}
		}
		return "", nil
	}))
	check(t, s.attacker.kubelet.List(t.Context(), &corev1.SecretList{}, client.InNamespace(s.attacker.landing)))
}

// readingAttacks returns one request for every right of a slice's identity that changes no object.
// Each names a pod or an API that need not exist: the API server checks the rights first.
func readingAttacks(c *e2e.Cluster, namespace string) map[string]attack {
	attacks := map[string]attack{}
	for api, kinds := range map[string][]string{
		"/api/v1":                          {"secrets", "configmaps", "services", "persistentvolumeclaims", "events", "pods", "pods/any/log", "pods/any/portforward"},
		"/apis/networking.k8s.io/v1":       {"ingresses"},
		"/apis/offloading.liqo.io/v1beta1": {"shadowpods", "shadowendpointslices"},
		"/apis/metrics.k8s.io/v1beta1":     {"pods"},
	} {
		for _, kind := range kinds {
			path := api + "/namespaces/" + namespace + "/" + kind
			attacks["get "+path] = func(ctx context.Context) error { return call(ctx, c, http.MethodGet, path) }
		}
	}
	for _, how := range []string{"exec", "attach", "portforward"} {
		path := "/api/v1/namespaces/" + namespace + "/pods/any/" + how
		attacks["connect to "+path] = func(ctx context.Context) error { return call(ctx, c, http.MethodPost, path) }
	}
	return attacks
}

// call sends a request without a body to a path of the API server.
func call(ctx context.Context, c *e2e.Cluster, method, path string) error {
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	return clients.CoreV1().RESTClient().Verb(method).AbsPath(path).Do(ctx).Error()
}
