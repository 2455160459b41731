package checkup

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Webhooks looks whether the API server can trust and reach the webhooks of a
// configuration.
func Webhooks(c client.Reader, name string, now func() time.Time) Check {
	return Check{"webhooks", func(ctx context.Context) Finding {
		if name == "" {
			return Skip("no webhook configuration is named")
		}
		configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, configuration)
		switch {
		case apierrors.IsNotFound(err):
			return Warn("set webhook.enabled=true in the chart, or leave it: what is wrong is refused later",
				"ValidatingWebhookConfiguration %q is missing: objects are not checked when they are written", name)
		case err != nil:
			return unreadable(err)
		case len(configuration.Webhooks) == 0:
			return Warn("", "ValidatingWebhookConfiguration %q names no webhook", name)
		}
		for i := range configuration.Webhooks {
			if finding := webhook(ctx, &configuration.Webhooks[i], now); finding.Level != OK {
				return finding
			}
		}
		return Found("%d, all trusted and reached", len(configuration.Webhooks))
	}}
}

func webhook(ctx context.Context, hook *admissionregistrationv1.ValidatingWebhook, now func() time.Time) Finding {
	bundle, service := hook.ClientConfig.CABundle, hook.ClientConfig.Service
	if len(bundle) == 0 {
		return Fail("does cert-manager's cainjector run? Its log tells; without cert-manager set webhook.caBundle",
			"%s has no CA bundle: the API server refuses every object it is asked about", hook.Name)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return Fail("", "the CA bundle of %s holds no certificate in PEM form", hook.Name)
	}
	if service == nil {
		return Found("%s", hook.Name)
	}
	port := int32(443)
	if service.Port != nil {
		port = *service.Port
	}
	name := fmt.Sprintf("%s.%s.svc", service.Name, service.Namespace)
	if !inCluster() && !resolves(ctx, name) {
		return Skip("a CA bundle is there; whether %s answers can be seen in a pod alone: its name is known in the cluster", name)
	}
	leaf, finding := Listener{Now: now}.dial(ctx, fmt.Sprintf("%s:%d", name, port), name, roots)
	if leaf == nil {
		return finding
	}
	return Validity(leaf, now())
}

// inCluster tells whether this runs in a pod, where the names of Services are known.
func inCluster() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }

func resolves(ctx context.Context, name string) bool {
	_, err := net.DefaultResolver.LookupHost(ctx, name)
	unknown, ok := errors.AsType[*net.DNSError](err)
	return !ok || !unknown.IsNotFound
}

// unreadable says that rights are missing, or more.
func unreadable(err error) Finding {
	if apierrors.IsForbidden(err) {
		_, what, _ := strings.Cut(err.Error(), "forbidden: ")
		return Skip("this account may not look: %s", what)
	}
	return Fail("", "%v", err)
}
