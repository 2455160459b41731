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

// Webhooks looks whether the API server can trust and reach the validating webhooks of a
// configuration.
func Webhooks(c client.Reader, name string, now func() time.Time) Check {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	missing := Warn("set webhook.enabled=true in the chart, or leave it: what is wrong is refused later",
		"ValidatingWebhookConfiguration %q is missing: objects are not checked when they are written", name)
	look := lookAt(c, name, now, configuration, missing, func() (hooks []called) {
		for _, hook := range configuration.Webhooks {
			hooks = append(hooks, called{hook.Name, hook.ClientConfig})
		}
		return hooks
	})
	return Check{"webhooks", look}
}

// MutatingWebhooks does the same for mutating ones, which mend what peers write.
func MutatingWebhooks(c client.Reader, name string, now func() time.Time) Check {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	missing := Warn("set guard.enabled=true and webhook.enabled=true in the chart where clusters lend to each other",
		"MutatingWebhookConfiguration %q is missing: a namespace that is offloaded both ways is mistaken", name)
	look := lookAt(c, name, now, configuration, missing, func() (hooks []called) {
		for _, hook := range configuration.Webhooks {
			hooks = append(hooks, called{hook.Name, hook.ClientConfig})
		}
		return hooks
	})
	return Check{"mending", look}
}

// called is where the API server finds a webhook.
type called struct {
	name   string
	config admissionregistrationv1.WebhookClientConfig
}

func lookAt(c client.Reader, name string, now func() time.Time, configuration client.Object, missing Finding, all func() []called) func(context.Context) Finding {
	return func(ctx context.Context) Finding {
		if name == "" {
			return Skip("no webhook configuration is named")
		}
		err := c.Get(ctx, client.ObjectKey{Name: name}, configuration)
		if apierrors.IsNotFound(err) {
			return missing
		}
		if err != nil {
			return unreadable(err)
		}
		hooks := all()
		if len(hooks) == 0 {
			return Warn("", "webhook configuration %q names no webhook", name)
		}
		for _, hook := range hooks {
			if finding := webhook(ctx, hook, now); finding.Level != OK {
				return finding
			}
		}
		return Found("%d, all trusted and reached", len(hooks))
	}
}

func webhook(ctx context.Context, hook called, now func() time.Time) Finding {
	bundle, service := hook.config.CABundle, hook.config.Service
	if len(bundle) == 0 {
		return Fail("does cert-manager's cainjector run? Its log tells; without cert-manager set webhook.caBundle",
			"%s has no CA bundle: the API server refuses every object it is asked about", hook.name)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return Fail("", "the CA bundle of %s holds no certificate in PEM form", hook.name)
	}
	if service == nil {
		return Found("%s", hook.name)
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
